package route

import (
	"maps"
	"slices"
)

// Undo returns object without what the Rollouts in gone own on it: managed rules, an experiment's backends, labels, and
// their entries in the record. Weights stay: what they should be is nobody's to say any more. The object itself is not
// modified.
func Undo(object map[string]any, gone []string) (map[string]any, error) {
	d, err := open(object, Intent{Gone: gone})
	if err != nil {
		return nil, err
	}
	if err := d.undoGone(); err != nil {
		return nil, err
	}
	d.remark()
	return d.close(), nil
}

// Entry is what the record of a route says of one Rollout.
type Entry struct {
	// Rollout is "namespace/name".
	Rollout string
	// UID is the UID that it had when it wrote the entry; empty where the entry has none.
	UID string
	// Weighted says that its canary, or an experiment of it, had weight.
	Weighted bool
	// Managed are its managed routes, and Destinations an experiment's Services, sorted.
	Managed, Destinations []string
}

// Entries are what the text of Annotation says, in the order of the Rollouts' names. One that cannot be read says nothing.
func Entries(text string) []Entry {
	read, err := parseRecord(text)
	if err != nil {
		return nil
	}
	var all []Entry
	for _, rollout := range read.owners() {
		own := read[rollout]
		all = append(all, Entry{
			Rollout: rollout, UID: own.UID, Weighted: own.Weighted,
			Managed: slices.Sorted(maps.Keys(own.Managed)), Destinations: slices.Sorted(slices.Values(own.Destinations)),
		})
	}
	return all
}
