package route

import (
	"fmt"
	"slices"
	"strings"
)

// Apply returns object as want asks for it, and what was done to it. The object itself is not modified. Applying the same Intent to the result changes nothing.
//
// The errors are those of this package; with one, nothing is to be written. A nil Weights together with an empty Managed set, which only takes away what is
// the Rollout's own, needs no rule with both Services and minds no other owner.
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

// change carries out the Intent on rules and backends.
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
		if err := d.removeDestinations(d.want.Rollout, append(before.Services, d.want.Stable, d.want.Canary), before.Destinations); err != nil {
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

// checkOwner fails when another Rollout is active on the route with one of the same Services.
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

// undoGone takes away what Rollouts own that are there no more. Their weights stay: nobody knows what they should be, until another Rollout sets them.
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

// settle brings record and label up to what the rules are now, and says whether the Rollout is active.
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

// label puts the in-progress label on the route while the Rollout is active and takes it off afterwards, unless another Rollout has it there too. A Rollout
// whose label has another value joins the one that is there: the two would otherwise write over each other for ever. A label that a user has put there is left
// alone: its key and value are free for any Rollout to name.
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
		// Also one that no entry tells of: the published plugin leaves it without a record.
		d.removeLabel(d.want.Label.Key, d.want.Rollout)
	}
}

// labelValue is the value of a label of the route.
func (d *draft) labelValue(key string) string {
	labels, _ := d.metadata["labels"].(map[string]any)
	return textOf(labels, key, "")
}

// isUsersLabel says whether the route has a label that nothing of ours can have put there. The default key is the published plugin's too.
func (d *draft) isUsersLabel(key, own string) bool {
	return d.labelValue(key) != "" && key != own && key != DefaultLabelKey && !d.record.labelled(key, "")
}

// hasSource says whether a rule in scope has both Services.
func (d *draft) hasSource() bool {
	_, err := d.sources()
	return err == nil
}

// removeLabel takes a label off the route, unless a Rollout other than the one given has it there.
func (d *draft) removeLabel(key, rollout string) {
	if key != "" && !d.record.labelled(key, rollout) {
		d.setMetadata("labels", key, "")
	}
}

// Error names the owner and the remedy.
func (e *OwnedError) Error() string {
	return fmt.Sprintf("%v: rollout %q has %s in use on this route: give each Rollout Services of its own", ErrOwned, e.Rollout, quoted(e.Services))
}

// Unwrap makes the error an ErrOwned.
func (e *OwnedError) Unwrap() error { return ErrOwned }
