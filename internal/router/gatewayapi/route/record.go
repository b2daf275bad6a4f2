package route

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// record is the content of Annotation: the Rollouts active on the route by "namespace/name".
type record map[string]*entry

// entry is what one Rollout owns on the route.
type entry struct {
	UID          string              `json:"uid,omitempty"`
	Services     []string            `json:"services,omitempty"`     // stable and canary, sorted; they are of the Rollout's namespace
	Weighted     bool                `json:"weighted,omitempty"`     // the canary or an experiment has weight
	Rule         string              `json:"rule,omitempty"`         // the name of the only rule that was weighted; allRules for all
	Destinations []string            `json:"destinations,omitempty"` // Services that an experiment added beside the canary
	Managed      map[string][]string `json:"managed,omitempty"`      // managed route → marks of its rules
	Label        string              `json:"label,omitempty"`        // key of the label it has on the route
}

// allRules is the Rule of an entry whose Rollout named none.
const allRules = "*"

// active says whether the entry has a reason to be there.
func (e *entry) active() bool { return e.Weighted || len(e.Destinations) > 0 || len(e.Managed) > 0 }

// parseRecord reads the annotation. One that is not ours to understand is an error; the caller goes on with an empty record, because weights must never
// depend on what somebody wrote there.
func parseRecord(text string) (record, error) {
	read := record{}
	if text == "" {
		return read, nil
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	if err := decoder.Decode(&read); err != nil {
		return record{}, fmt.Errorf("metadata.annotations[%q] cannot be read, so managed rules that it named are left alone: %w", Annotation, err)
	}
	maps.DeleteFunc(read, func(rollout string, e *entry) bool { return e == nil || !strings.Contains(rollout, "/") })
	return read, nil
}

// text is the annotation for the record; empty means none.
func (r record) text() string {
	if len(r) == 0 {
		return ""
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	// Maps with string keys, strings and bools: the encoder has nothing to fail at.
	_ = encoder.Encode(r)
	return strings.TrimSpace(text.String())
}

// owners are the Rollouts of the record, sorted.
func (r record) owners() []string { return slices.Sorted(maps.Keys(r)) }

// labelled says whether an entry other than that of rollout has the label of that key.
func (r record) labelled(key, rollout string) bool {
	for owner, e := range r {
		if owner != rollout && e.Label == key {
			return true
		}
	}
	return false
}

// The marks by which a managed rule is found again.
const (
	nameMark = "name:" // and spec.rules[].name
	hashMark = "hash:" // and the hash of the rule, where the schema has no names
)

// markOf is the mark of a managed rule: its name, which nothing else on the route can have, or else its content.
func markOf(fields map[string]any) string {
	if name := textOf(fields, "name", ""); name != "" {
		return nameMark + name
	}
	// Decoded JSON always encodes, with sorted keys; whole numbers read the same whatever Go type holds them.
	text, _ := json.Marshal(fields)
	sum := sha256.Sum256(text)
	return hashMark + hex.EncodeToString(sum[:12])
}
