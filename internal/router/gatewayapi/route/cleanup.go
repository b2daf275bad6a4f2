package route

import (
	"maps"
	"slices"
)

// RemoveOwners returns object without what the Rollouts in owners own on it: managed rules, an experiment's backends,
// labels, and their entries in the record. Weights stay, because the correct values are unknown. It does not modify
// object.
func RemoveOwners(object map[string]any, owners []string) (map[string]any, error) {
	d, err := newDraft(object, Intent{GoneOwners: owners})
	if err != nil {
		return nil, err
	}
	if err := d.removeGone(); err != nil {
		return nil, err
	}
	d.updateMarks()
	return d.finish(), nil
}

// Entry is the entry of one Rollout in the record of a route.
type Entry struct {
	// Rollout is "namespace/name".
	Rollout string
	// UID is its UID when it wrote the entry; empty if the entry has none.
	UID string
	// Weighted is true if its canary or an experiment had weight.
	Weighted bool
	// Managed are its managed routes, and Destinations the Services of an experiment, sorted.
	Managed, Destinations []string
}

// Entries returns the entries in the text of Annotation, sorted by Rollout; none if the text is invalid.
func Entries(text string) []Entry {
	parsed, err := parseRecord(text)
	if err != nil {
		return nil
	}
	var all []Entry
	for _, rollout := range parsed.owners() {
		parsedEntry := parsed[rollout]
		all = append(all, Entry{
			Rollout: rollout, UID: parsedEntry.UID, Weighted: parsedEntry.Weighted,
			Managed:      slices.Sorted(maps.Keys(parsedEntry.Managed)),
			Destinations: slices.Sorted(slices.Values(parsedEntry.Destinations)),
		})
	}
	return all
}
