package route

import (
	"fmt"
	"slices"
	"strings"
)

// sessionField is the field of a rule with its sessions (Gateway API, SessionPersistence; GEP-1619).
const sessionField = "sessionPersistence"

// Sessions are sessions of clients: a Gateway keeps a client on the Pod that answered its first request, and so on one
// version. The zero value means no sessions.
type Sessions struct {
	// Name is the name of the cookie or the header.
	Name string
	// Header is true for a header that the Gateway sets in responses and clients send back, and false for a cookie.
	Header bool
	// MaxAge is the lifetime of the cookie in seconds. With 0 it ends with the browser session.
	MaxAge uint32
}

// value returns the value of sessionField, nil for no sessions. It contains all fields for which the API server has a
// default, so that the stored value is the same.
func (s Sessions) value() map[string]any {
	switch {
	case s == Sessions{}:
		return nil
	case s.Header:
		return map[string]any{"sessionName": s.Name, "type": "Header"}
	}
	value := map[string]any{"sessionName": s.Name, "type": "Cookie"}
	if s.MaxAge > 0 {
		value["absoluteTimeout"] = formatDuration(s.MaxAge)
		value["cookieConfig"] = map[string]any{"lifetimeType": "Permanent"}
	}
	return value
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

// SplitsSessions reports whether the rules in scope have the Intent's sessions: as long as requests are split. At the
// full weight of one Service they would only keep clients on a Service without weight, because a session takes
// precedence over weights (GEP-1619).
func (want Intent) SplitsSessions() bool {
	if want.Weights == nil || want.EndsSessions || want.Sessions == (Sessions{}) {
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

// validateSessions checks that the route can have the sessions.
func (want Intent) validateSessions() error {
	switch {
	case !want.SplitsSessions():
		return nil
	case !want.Kind.Sessions():
		return fmt.Errorf("%w: a %s has no sessions: remove stickiness from the Rollout, or use an HTTPRoute or a GRPCRoute",
			ErrUnsupported, want.Kind)
	case !want.HasSessions:
		return SessionsUnsupported(want.Kind)
	}
	return nil
}

// SessionsUnsupported returns the ErrUnsupported for a CRD without sessions, which the API server would drop.
func SessionsUnsupported(kind Kind) error {
	return fmt.Errorf("%w: the CRD of %s in the cluster has no spec.rules[].%s, which stickiness needs, so no weight was "+
		"written: install the experimental channel of the Gateway API, or remove stickiness from the Rollout",
		ErrUnsupported, kind, sessionField)
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

// ownSessions returns the sessions that the Rollout has written, by its record. If the record has no entry, but the
// route has the in-progress label and the canary has weight, the entry was lost: then they are the sessions of the
// Intent. (Without the label, the weight can be the API's default.)
func (d *draft) ownSessions(sources []*rule) writtenSessions {
	if entry, ok := d.record[d.intent.Rollout]; ok {
		return entry.sessions(d.intent.Namespace)
	}
	written := writtenSessions{
		namespace: d.intent.Namespace, services: []string{d.intent.Stable, d.intent.Canary}, rule: d.scope(),
	}
	if d.intent.Label != nil && d.labelValue(d.intent.Label.Key) != "" && d.canaryWeight(sources) > 0 {
		written.value = d.intent.Sessions.value()
	}
	return written
}

// sessions returns the sessions of an entry of a Rollout of that namespace.
func (e *entry) sessions(namespace string) writtenSessions {
	return writtenSessions{value: e.Sessions, namespace: namespace, services: e.Services, rule: e.Rule}
}

// removeSessions removes sessions that a Rollout has written: from the rules in its scope that have both of its
// Services, and from managed rules that are copies of such rules. Other sessions belong to the author of the route.
func (d *draft) removeSessions(written writtenSessions) error {
	if written.value == nil {
		return nil
	}
	for _, r := range d.rules {
		inScope := r.owner != "" || written.rule == allRules || r.name() == written.rule
		if !inScope || !equal(r.fields[sessionField], any(written.value)) {
			continue
		}
		backends, err := r.backends()
		if err != nil {
			return err
		}
		hasAll := !slices.ContainsFunc(written.services, func(service string) bool {
			return !slices.ContainsFunc(backends, func(ref map[string]any) bool {
				return d.isServiceOf(ref, written.namespace, []string{service})
			})
		})
		if hasAll {
			delete(r.fields, sessionField)
		}
	}
	return nil
}

// setSessions sets the sessions of the sources, and of the managed rules whose weights setWeights sets. Sessions of the
// route's author stay. They are an error, because they would outlast an abort.
func (d *draft) setSessions(sources []*rule) error {
	wanted := d.intent.wantedSessions()
	if wanted == nil {
		return nil
	}
	for _, r := range d.rules {
		_, _, _, hasBoth, err := d.servicePair(r)
		if err != nil {
			return err
		}
		if !hasBoth || !d.isWeighted(r, sources) {
			continue
		}
		if r.owner == "" && r.fields[sessionField] != nil {
			return d.sessionClash(r)
		}
		r.fields[sessionField] = cloneMap(wanted)
	}
	return nil
}

// sessionClash returns the ErrClash for a rule with sessions that the Rollout has not written.
func (d *draft) sessionClash(r *rule) error {
	for _, rollout := range d.record.owners() {
		if equal(r.fields[sessionField], any(d.record[rollout].Sessions)) {
			return fmt.Errorf("%w: %s.%s is that of rollout %q, and a rule can have the sessions of one Rollout, so no weight "+
				"was written: give each Rollout its own rule, or remove stickiness from one of them", ErrClash, r.path,
				sessionField, rollout)
		}
	}
	return fmt.Errorf("%w: %s.%s is set, and the Rollout has stickiness: sessions that the router has not written may "+
		"outlast an abort, so no weight was written: remove the field there, or stickiness from the Rollout", ErrClash,
		r.path, sessionField)
}

// removeRolloutSessions removes sessions that a Rollout has written from the copy of a rule for a header route: its
// requests have one version, and its sessions would keep the clients there when they no longer send the header.
func (d *draft) removeRolloutSessions(derived *rule) {
	written := []map[string]any{d.intent.wantedSessions()}
	for _, entry := range d.record {
		written = append(written, entry.Sessions)
	}
	if slices.ContainsFunc(written, func(value map[string]any) bool {
		return value != nil && equal(derived.fields[sessionField], any(value))
	}) {
		delete(derived.fields, sessionField)
	}
}

// SessionProblem returns why a parent of the route does not implement the sessions of its rules, by the conditions
// about the current generation; empty if none reports that. Implementations without sessions report nothing, or one of
// these reasons.
func SessionProblem(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	generation, _ := numberField(metadata, "generation")
	status, _ := object["status"].(map[string]any)
	reports, _ := objectListField(status, "parents", "status.parents")
	for i, report := range reports {
		path := fmt.Sprintf("status.parents[%d]", i)
		conditions, _ := objectListField(report, "conditions", path+".conditions")
		for _, condition := range conditions {
			observed, _ := numberField(condition, "observedGeneration")
			reason, message := stringField(condition, "reason", ""), stringField(condition, "message", "")
			isUnsupported := reason == "UnsupportedValue" || reason == "UnsupportedField"
			isRejected := stringField(condition, "type", "") == "Accepted" && stringField(condition, "status", "") == "False"
			if observed == generation && isUnsupported && (isRejected || strings.Contains(strings.ToLower(message), "session")) {
				return fmt.Sprintf("%s (%s): condition %s is %s (%s): %.200s", path,
					stringField(report, "controllerName", "no controllerName"), stringField(condition, "type", ""),
					stringField(condition, "status", ""), reason, message)
			}
		}
	}
	return ""
}
