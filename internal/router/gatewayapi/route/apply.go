package route

import (
	"fmt"
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/router/reasons"
)

// Apply returns object with the changes of want, and a Report. It does not modify object. Applying the same Intent to
// the result changes nothing.
//
// Errors are those of this package; after an error, nothing must be written. An Intent with nil Weights and an empty
// ManagedRoutes set only removes what the Rollout owns: it needs no rule with both Services and ignores other owners.
func Apply(object map[string]any, want Intent) (map[string]any, Report, error) {
	if err := want.validate(); err != nil {
		return nil, Report{}, err
	}
	d, err := newDraft(object, want)
	if err != nil {
		return nil, Report{}, err
	}
	if err := d.removeGone(); err != nil {
		return nil, Report{}, err
	}
	if err := d.applyIntent(); err != nil {
		return nil, Report{}, err
	}
	active := d.updateRecord()
	changed := d.finish()
	return changed, Report{
		Changed: !equal(object, changed), Active: active, Warnings: d.warnings, SessionError: d.sessionError,
	}, nil
}

// applyIntent applies the Intent to rules and backends.
func (d *draft) applyIntent() error {
	weights, managed := d.intent.Weights, d.intent.ManagedRoutes
	var sources []*rule
	if weights != nil || managed != nil && len(*managed) > 0 {
		if err := d.checkOwner(); err != nil {
			return err
		}
		var err error
		if sources, err = d.sourceRules(); err != nil {
			return err
		}
	}
	if weights != nil {
		if err := d.applyWeights(sources, *weights); err != nil {
			return err
		}
	}
	if managed == nil {
		return nil
	}
	return d.setManaged(sources, *managed)
}

// applyWeights applies the weights, the destinations of an experiment, and the sessions.
func (d *draft) applyWeights(sources []*rule, weights Weights) error {
	own := d.ownSessions(sources)
	keeps, err := d.planSessions(sources, own, weights)
	if err != nil {
		return err
	}
	before := d.ownEntry()
	if err := d.removeDestinations(d.intent.Rollout, append(before.Services, d.intent.Stable, d.intent.Canary),
		before.Destinations); err != nil {
		return err
	}
	if before.Weighted && before.Rule != "" && before.Rule != d.scope() {
		if err := d.resetScope(sources, before.Rule, weights); err != nil {
			return err
		}
	}
	if err := d.setWeights(sources, weights); err != nil {
		return err
	}
	return d.setSessions(sources, own, keeps)
}

// checkOwner returns an OwnedError if another Rollout is active on the route with one of the same Services.
func (d *draft) checkOwner() error {
	for _, rollout := range d.record.owners() {
		if rollout == d.intent.Rollout || namespaceOf(rollout) != d.intent.Namespace {
			continue
		}
		var common []string
		for _, service := range []string{d.intent.Stable, d.intent.Canary} {
			if slices.Contains(d.record[rollout].Services, service) {
				common = append(common, service)
			}
		}
		if len(common) > 0 {
			return &OwnedError{Rollout: rollout, UID: d.record[rollout].UID, Services: common}
		}
	}
	return nil
}

// removeGone removes what the Rollouts in Intent.GoneOwners own. Their weights stay until another Rollout sets them:
// the correct values are unknown.
func (d *draft) removeGone() error {
	for _, rollout := range d.intent.GoneOwners {
		entry := d.record[rollout]
		if entry == nil || rollout == d.intent.Rollout {
			continue
		}
		d.removeManaged(rollout)
		d.warnUnmatched(rollout)
		none := func(*rule) bool { return false }
		if err := d.removeSessions(rollout, entry.sessions(rollout), none); err != nil {
			return err
		}
		if err := d.removeDestinations(rollout, entry.Services, entry.Destinations); err != nil {
			return err
		}
		d.removeLabel(entry.Label, rollout)
		delete(d.record, rollout)
	}
	return nil
}

// updateRecord updates record and label to the current rules, and returns whether the Rollout is active.
func (d *draft) updateRecord() bool {
	entry := d.ownEntry()
	entry.UID = d.intent.UID
	entry.Services = []string{d.intent.Stable, d.intent.Canary}
	slices.Sort(entry.Services)
	if d.intent.Weights != nil {
		entry.Weighted = !d.intent.Weights.IsStableOnly()
		entry.Rule, entry.Destinations, entry.Sessions = "", nil, d.sessions
		if entry.Weighted {
			entry.Rule = d.scope()
		}
		for _, other := range d.intent.Weights.Others {
			entry.Destinations = append(entry.Destinations, other.Service)
		}
	}
	d.updateMarks()
	active := entry.active()
	d.updateLabel(entry, active)
	if !active {
		delete(d.record, d.intent.Rollout)
	}
	return active
}

// updateLabel adds the in-progress label while the Rollout is active and removes it afterwards, unless another Rollout
// needs it. If Rollouts configure different values for a key, the existing value stays: otherwise they would overwrite
// each other forever. A label that a user has added is not changed: a Rollout may configure any key and value.
func (d *draft) updateLabel(entry *entry, active bool) {
	before := entry.Label
	entry.Label = ""
	if d.intent.Label != nil && active && !d.isUserLabel(d.intent.Label.Key, before) {
		entry.Label = d.intent.Label.Key
	}
	if before != entry.Label {
		d.removeLabel(before, d.intent.Rollout)
	}
	if d.intent.Label == nil {
		return
	}
	present := d.labelValue(d.intent.Label.Key)
	switch {
	case entry.Label != "" && (present == "" || !d.record.labelled(entry.Label, d.intent.Rollout)):
		d.setMetadata("labels", entry.Label, d.intent.Label.Value)
	case !active && d.intent.Label.Key == DefaultLabelKey && present == d.intent.Label.Value && d.hasSource():
		// Also a label without a record: the argoproj-labs plugin leaves one.
		d.removeLabel(d.intent.Label.Key, d.intent.Rollout)
	}
}

// labelValue returns the value of a label of the route.
func (d *draft) labelValue(key string) string {
	labels, _ := d.metadata["labels"].(map[string]any)
	return stringField(labels, key, "")
}

// isUserLabel reports whether the route has a label that no router can have added. The argoproj-labs plugin uses the
// default key too.
func (d *draft) isUserLabel(key, ownKey string) bool {
	return d.labelValue(key) != "" && key != ownKey && key != DefaultLabelKey && !d.record.labelled(key, "")
}

// hasSource reports whether a rule in scope has both Services.
func (d *draft) hasSource() bool {
	_, err := d.sourceRules()
	return err == nil
}

// removeLabel removes a label from the route, unless a Rollout other than rollout has it there.
func (d *draft) removeLabel(key, rollout string) {
	if key != "" && !d.record.labelled(key, rollout) {
		d.setMetadata("labels", key, "")
	}
}

// Error returns a text with the owner and the fix.
func (e *OwnedError) Error() string {
	return fmt.Sprintf("%v: rollout %q already uses %s on this route: give each Rollout its own Services", ErrOwned,
		e.Rollout, quoteNames(e.Services))
}

// EventReason returns the reason of an Event about the error.
func (*OwnedError) EventReason() string { return reasons.OwnedByOtherRollout }

// Unwrap returns ErrOwned.
func (e *OwnedError) Unwrap() error { return ErrOwned }
