package route

import (
	"fmt"
	"slices"
	"strings"
)

// Apply returns object with the changes of want, and a Report. It does not modify object. Applying the same Intent to
// the result changes nothing.
//
// Errors are those of this package; after an error, nothing must be written. An Intent with nil Weights and an empty
// Managed set only removes what the Rollout owns: it needs no rule with both Services and ignores other owners.
func Apply(object map[string]any, want Intent) (map[string]any, Report, error) {
	if err := want.validate(); err != nil {
		return nil, Report{}, err
	}
	d, err := open(object, want)
	if err != nil {
		return nil, Report{}, err
	}
	if err := d.undoGone(); err != nil {
		return nil, Report{}, err
	}
	if err := d.change(); err != nil {
		return nil, Report{}, err
	}
	active := d.settle()
	changed := d.close()
	return changed, Report{Changed: !equal(object, changed), Active: active, Warnings: d.warnings}, nil
}

// applyIntent applies the Intent to rules and backends.
func (d *draft) change() error {
	weights, managed := d.want.Weights, d.want.Managed
	var sources []*rule
	if weights != nil || managed != nil && len(*managed) > 0 {
		if err := d.checkOwner(); err != nil {
			return err
		}
		var err error
		if sources, err = d.sources(); err != nil {
			return err
		}
	}
	if weights != nil {
		before := d.entry()
		if err := d.removeDestinations(d.want.Rollout, append(before.Services, d.want.Stable, d.want.Canary),
			before.Destinations); err != nil {
			return err
		}
		if before.Weighted && before.Rule != "" && before.Rule != d.scope() {
			if err := d.leave(sources, before.Rule, *weights); err != nil {
				return err
			}
		}
		if err := d.share(sources, *weights); err != nil {
			return err
		}
	}
	if managed == nil {
		return nil
	}
	return d.manage(sources, *managed)
}

// checkOwner returns an OwnedError if another Rollout is active on the route with one of the same Services.
func (d *draft) checkOwner() error {
	for _, rollout := range d.record.owners() {
		namespace, _, _ := strings.Cut(rollout, "/")
		if rollout == d.want.Rollout || namespace != d.want.Namespace {
			continue
		}
		var common []string
		for _, service := range []string{d.want.Stable, d.want.Canary} {
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

// removeGone removes what the Rollouts in Intent.Gone own. Their weights stay until another Rollout sets them: the
// correct values are unknown.
func (d *draft) undoGone() error {
	for _, rollout := range d.want.Gone {
		gone := d.record[rollout]
		if gone == nil || rollout == d.want.Rollout {
			continue
		}
		d.drop(rollout)
		d.forgetLost(rollout)
		if err := d.removeDestinations(rollout, gone.Services, gone.Destinations); err != nil {
			return err
		}
		d.removeLabel(gone.Label, rollout)
		delete(d.record, rollout)
	}
	return nil
}

// updateRecord updates record and label to the current rules, and returns whether the Rollout is active.
func (d *draft) settle() bool {
	own := d.entry()
	own.UID = d.want.UID
	own.Services = []string{d.want.Stable, d.want.Canary}
	slices.Sort(own.Services)
	if d.want.Weights != nil {
		own.Weighted = !d.want.Weights.Idle()
		own.Rule, own.Destinations = "", nil
		if own.Weighted {
			own.Rule = d.scope()
		}
		for _, other := range d.want.Weights.Others {
			own.Destinations = append(own.Destinations, other.Service)
		}
	}
	d.remark()
	active := own.active()
	d.label(own, active)
	if !active {
		delete(d.record, d.want.Rollout)
	}
	return active
}

// updateLabel adds the in-progress label while the Rollout is active and removes it afterwards, unless another Rollout
// needs it. If Rollouts configure different values for a key, the existing value stays: otherwise they would overwrite
// each other forever. A label that a user has added is not changed: a Rollout may configure any key and value.
func (d *draft) label(own *entry, active bool) {
	before := own.Label
	own.Label = ""
	if d.want.Label != nil && active && !d.isUsersLabel(d.want.Label.Key, before) {
		own.Label = d.want.Label.Key
	}
	if before != own.Label {
		d.removeLabel(before, d.want.Rollout)
	}
	if d.want.Label == nil {
		return
	}
	present := d.labelValue(d.want.Label.Key)
	switch {
	case own.Label != "" && (present == "" || !d.record.labelled(own.Label, d.want.Rollout)):
		d.setMetadata("labels", own.Label, d.want.Label.Value)
	case !active && d.want.Label.Key == DefaultLabelKey && present == d.want.Label.Value && d.hasSource():
		// Also a label without a record: the argoproj-labs plugin leaves one.
		d.removeLabel(d.want.Label.Key, d.want.Rollout)
	}
}

// labelValue returns the value of a label of the route.
func (d *draft) labelValue(key string) string {
	labels, _ := d.metadata["labels"].(map[string]any)
	return textOf(labels, key, "")
}

// isUserLabel reports whether the route has a label that no router can have added. The argoproj-labs plugin uses the
// default key too.
func (d *draft) isUsersLabel(key, own string) bool {
	return d.labelValue(key) != "" && key != own && key != DefaultLabelKey && !d.record.labelled(key, "")
}

// hasSource reports whether a rule in scope has both Services.
func (d *draft) hasSource() bool {
	_, err := d.sources()
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
		e.Rollout, quoted(e.Services))
}

// Unwrap returns ErrOwned.
func (e *OwnedError) Unwrap() error { return ErrOwned }
