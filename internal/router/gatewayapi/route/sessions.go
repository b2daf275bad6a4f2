package route

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/internal/router/reasons"
)

// sessionField is the field of a rule with its sessions (Gateway API, SessionPersistence; GEP-1619).
const sessionField = "sessionPersistence"

// revisionSeparator is between the name and the revision of Sessions.
const revisionSeparator = "-"

// Sessions are sessions of clients: a Gateway keeps a client on the Pod that answered its first request, and so on one
// version. The zero value means no sessions.
type Sessions struct {
	// Name is the name of the cookie or the header.
	Name string
	// Revision is added to the name of a cookie, so that cookies of an earlier canary do not count. Empty adds nothing.
	Revision string
	// Header is true for a header that the Gateway sets in responses and clients send back, and false for a cookie.
	Header bool
	// MaxAge is the lifetime of the cookie in seconds. With 0 it ends with the browser session.
	MaxAge uint32
}

// value returns the value of sessionField, nil for no sessions. It contains all fields for which the API server has a
// default, so that the stored value is the same.
func (s Sessions) value() map[string]any {
	switch {
	case s.isZero():
		return nil
	case s.Header:
		return map[string]any{"sessionName": s.Name, "type": "Header"}
	}
	value := map[string]any{"sessionName": s.Name, "type": "Cookie"}
	if s.Revision != "" {
		value["sessionName"] = s.Name + revisionSeparator + s.Revision
	}
	if s.MaxAge > 0 {
		value["absoluteTimeout"] = formatDuration(s.MaxAge)
		value["cookieConfig"] = map[string]any{"lifetimeType": "Permanent"}
	}
	return value
}

// isZero reports whether there are no sessions.
func (s Sessions) isZero() bool { return s.Name == "" }

// isValue reports whether a value of sessionField is that of the sessions, for any Revision.
func (s Sessions) isValue(value any) bool {
	fields, _ := value.(map[string]any)
	if s.isZero() || fields == nil {
		return false
	}
	name := stringField(fields, "sessionName", "")
	if revision, ok := strings.CutPrefix(name, s.Name+revisionSeparator); ok && !s.Header {
		s.Revision = revision
	}
	return equal(value, any(s.value()))
}

// formatDuration formats seconds as a duration of the Gateway API (GEP-2257), without parts that are 0.
func formatDuration(seconds uint32) string {
	const perMinute, perHour = 60, 60 * 60
	var text strings.Builder
	for _, part := range []struct {
		number uint32
		unit   string
	}{{seconds / perHour, "h"}, {seconds % perHour / perMinute, "m"}, {seconds % perMinute, "s"}} {
		if part.number > 0 {
			fmt.Fprintf(&text, "%d%s", part.number, part.unit)
		}
	}
	return text.String()
}

// SplitsSessions reports whether the rules in scope must have the Intent's sessions: as long as requests are split, and
// the canary has not ended. At the full weight of one Service they would only keep clients on a Service without weight,
// because a session takes precedence over weights (GEP-1619).
func (want Intent) SplitsSessions() bool {
	return want.splits() && !want.KeepsSessions && (!want.Sessions.isZero() || want.SessionsError != nil)
}

// splits reports whether at least two Services have weight.
func (want Intent) splits() bool {
	if want.Weights == nil {
		return false
	}
	weighted := 0
	for _, weight := range append([]int32{want.Weights.Stable, want.Weights.Canary}, want.Weights.others()...) {
		if weight > 0 {
			weighted++
		}
	}
	return weighted > 1
}

// others returns the weights of the destinations.
func (w Weights) others() []int32 {
	weights := make([]int32, 0, len(w.Others))
	for _, other := range w.Others {
		weights = append(weights, other.Weight)
	}
	return weights
}

// checkSessions returns why no route of the kind can have the sessions; nil if one can.
func (want Intent) checkSessions() error {
	switch {
	case !want.SplitsSessions():
		return nil
	case want.SessionsError != nil:
		return fmt.Errorf("%w: %w", ErrInvalid, want.SessionsError)
	case !want.Kind.Sessions():
		return fmt.Errorf("%w: a %s has no sessions: remove stickiness from the Rollout, or use an HTTPRoute or a GRPCRoute",
			ErrUnsupported, want.Kind)
	case !want.HasSessions: // the API server would drop them
		return fmt.Errorf("%w: the CRD of %s in the cluster has no spec.rules[].%s, which stickiness needs, so the weights "+
			"of this route are not raised: install the experimental channel of the Gateway API, or remove stickiness from the "+
			"Rollout", ErrUnsupported, want.Kind, sessionField)
	}
	return nil
}

// wantedSessions returns the sessions that the rules in scope get; nil for none.
func (want Intent) wantedSessions() map[string]any {
	if !want.SplitsSessions() {
		return nil
	}
	return want.Sessions.value()
}

// writtenSessions are the sessions that a Rollout has written, and where.
type writtenSessions struct {
	value     map[string]any // nil for none
	namespace string         // of the Services
	services  []string       // the stable and the canary Service
	rule      string         // the name of the only rule; allRules for all
}

// ownSessions returns the sessions that the Rollout has written, by its record. If the record has no weights of the
// Rollout, but a rule has weights as the router writes them, the record was lost: then they are the sessions of such a
// rule that the Intent's configuration explains. (The API's default weights do not add up to the total.)
func (d *draft) ownSessions(sources []*rule) writtenSessions {
	if entry, ok := d.record[d.intent.Rollout]; ok && (entry.Weighted || entry.Sessions != nil) {
		return entry.sessions(d.intent.Rollout)
	}
	written := writtenSessions{
		namespace: d.intent.Namespace, services: []string{d.intent.Stable, d.intent.Canary}, rule: d.scope(),
	}
	for _, r := range sources {
		if value, ok := r.fields[sessionField].(map[string]any); ok && d.intent.Sessions.isValue(value) && d.isSplit(r) {
			written.value = cloneMap(value)
			break
		}
	}
	return written
}

// isSplit reports whether the canary has weight in a source and the weights of the Rollout's Services add up to the
// Intent's total.
func (d *draft) isSplit(source *rule) bool {
	weights := d.intent.Weights
	weight := func(service string) int32 { return d.highestWeight([]*rule{source}, service) }
	sum, total := weight(d.intent.Stable)+weight(d.intent.Canary), weights.Stable+weights.Canary
	for _, other := range weights.Others {
		sum += weight(other.Service)
		total += other.Weight
	}
	return weight(d.intent.Canary) > 0 && sum == total
}

// sessions returns the sessions of the entry of a Rollout.
func (e *entry) sessions(rollout string) writtenSessions {
	return writtenSessions{value: e.Sessions, namespace: namespaceOf(rollout), services: e.Services, rule: e.Rule}
}

// hasSessions reports whether a rule has sessions that a Rollout has written: it is in the scope of the Rollout and has
// both of its Services, or it is managed, as a copy of such a rule. Other sessions belong to the author of the route.
// hasAll is false if only a Service is missing.
func (d *draft) hasSessions(r *rule, written writtenSessions) (has, hasAll bool, err error) {
	inScope := r.owner != "" || written.rule == allRules || r.name() == written.rule
	if written.value == nil || !inScope || !equal(r.fields[sessionField], any(written.value)) {
		return false, true, nil
	}
	backends, err := r.backends()
	if err != nil {
		return false, true, err
	}
	hasAll = !slices.ContainsFunc(written.services, func(service string) bool {
		return !slices.ContainsFunc(backends, func(ref map[string]any) bool {
			return d.isServiceOf(ref, written.namespace, []string{service})
		})
	})
	return hasAll, hasAll, nil
}

// removeSessions removes sessions that a Rollout has written from all rules except those that keep returns true for. It
// warns about rules that have lost a Service since: their sessions may be those of the author.
func (d *draft) removeSessions(rollout string, written writtenSessions, keep func(*rule) bool) error {
	for _, r := range d.rules {
		has, hasAll, err := d.hasSessions(r, written)
		switch {
		case err != nil:
			return err
		case has && !keep(r):
			delete(r.fields, sessionField)
		case !hasAll && r.owner == "" && !equal(any(written.value), any(d.sessions)):
			d.warn(reasons.SessionsNotRemoved, fmt.Sprintf("%s.%s is that of a canary of rollout %q, but the rule no longer has "+
				"both of its Services (%s), so it is not removed: remove it there if it is not yours", r.path, sessionField,
				rollout, quoteNames(written.services)))
		}
	}
	return nil
}

// planSessions decides which sessions the rules get with weights: d.sessions. In an abort or a rollback they are those
// that the Rollout has written, so that no client changes the version before the canary has no weight. If the rules
// cannot have those of the Intent, that is an error only for a weight that rises: lower and equal weights must not
// depend on sessions. They are written with the previous sessions, and d.sessionError.
func (d *draft) planSessions(sources []*rule, own writtenSessions, weights Weights) (keeps bool, err error) {
	problem := d.intent.checkSessions()
	if problem == nil {
		problem = d.sessionClash(sources, own)
	}
	if problem != nil && d.raises(sources, weights) {
		return false, problem
	}
	d.sessionError = problem
	if problem != nil {
		d.warn(reasons.StickinessNotApplied, problem.Error())
	}
	d.sessions = d.intent.wantedSessions()
	keeps = d.intent.splits() && (d.intent.KeepsSessions || problem != nil)
	if keeps {
		d.sessions = own.value
	}
	return keeps, nil
}

// raises reports whether weights give the canary or an experiment more weight than it has.
func (d *draft) raises(sources []*rule, weights Weights) bool {
	return weights.Canary > d.highestWeight(sources, d.intent.Canary) ||
		slices.ContainsFunc(weights.Others, func(other Destination) bool {
			return other.Weight > d.highestWeight(sources, other.Service)
		})
}

// setSessions sets d.sessions in the rules whose weights setWeights sets, instead of those that the Rollout has
// written. If keeps is true, it adds none.
func (d *draft) setSessions(sources []*rule, own writtenSessions, keeps bool) error {
	keep := func(r *rule) bool { return keeps && d.isWeighted(r, sources) }
	if err := d.removeSessions(d.intent.Rollout, own, keep); err != nil {
		return err
	}
	if d.sessions == nil || keeps {
		return nil
	}
	for _, r := range d.rules {
		if !d.isWeighted(r, sources) {
			continue
		}
		_, _, _, hasBoth, err := d.servicePair(r)
		if err != nil {
			return err
		}
		if hasBoth {
			r.fields[sessionField] = cloneMap(d.sessions)
		}
	}
	return nil
}

// sessionClash returns the ErrClash for a source with sessions that the Rollout has not written; nil for none. They
// would outlast an abort.
func (d *draft) sessionClash(sources []*rule, own writtenSessions) error {
	if !d.intent.SplitsSessions() {
		return nil
	}
	for _, r := range sources {
		isOwn, _, _ := d.hasSessions(r, own) // the backends of a source are valid
		if r.fields[sessionField] != nil && !isOwn {
			return d.sessionClashOf(r)
		}
	}
	return nil
}

// sessionClashOf returns the ErrClash for a rule with sessions that the Rollout has not written.
func (d *draft) sessionClashOf(r *rule) error {
	for _, rollout := range d.record.owners() {
		if rollout != d.intent.Rollout && equal(r.fields[sessionField], any(d.record[rollout].Sessions)) {
			return fmt.Errorf("%w: %s.%s is that of rollout %q, and a rule can have the sessions of one Rollout, so "+
				"the weights of this route are not raised: give each Rollout its own rule, or remove stickiness from one of them", ErrClash,
				r.path, sessionField, rollout)
		}
	}
	return fmt.Errorf("%w: %s.%s is set, and the Rollout has stickiness: sessions that the router has not written may "+
		"outlast an abort, so the weights of this route are not raised: remove the field there, or stickiness from the "+
		"Rollout", ErrClash, r.path, sessionField)
}

// removeRolloutSessions removes sessions that a Rollout has written from the copy of a source for a header route: its
// requests have one version, and its sessions would keep the clients there when they no longer send the header.
func (d *draft) removeRolloutSessions(source, derived *rule) {
	isWritten := d.sessions != nil && equal(source.fields[sessionField], any(d.sessions))
	for rollout, entry := range d.record {
		has, _, _ := d.hasSessions(source, entry.sessions(rollout)) // the backends of a source are valid
		isWritten = isWritten || has
	}
	if isWritten {
		delete(derived.fields, sessionField)
	}
}

// SessionProblem returns why a parent in spec.parentRefs may not implement the sessions of the rules, by the conditions
// about the current generation; empty if none reports that. Implementations without sessions report nothing, or a
// condition with one of two reasons and the name of the field.
func SessionProblem(object map[string]any) string {
	d, err := newDraft(object, Intent{})
	if err != nil {
		return ""
	}
	generation, _ := numberField(d.metadata, "generation")
	reports, _, err := readReports(object)
	if err != nil {
		return ""
	}
	for _, report := range reports {
		if !report.isNamed {
			continue
		}
		conditions, _ := objectListField(report.fields, "conditions", report.path+".conditions")
		for _, condition := range conditions {
			observed, _ := numberField(condition, "observedGeneration")
			reason, message := stringField(condition, "reason", ""), stringField(condition, "message", "")
			isUnsupported := reason == "UnsupportedValue" || reason == "UnsupportedField"
			if observed == generation && isUnsupported && strings.Contains(strings.ToLower(message), "session") {
				return fmt.Sprintf("%s (%s): condition %s is %s (%s): %.200s", report.path,
					stringField(report.fields, "controllerName", "no controllerName"), stringField(condition, "type", ""),
					stringField(condition, "status", ""), reason, message)
			}
		}
	}
	return ""
}
