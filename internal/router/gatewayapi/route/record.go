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

// record is the content of Annotation: the Rollouts that are active on the route by "namespace/name".
type record map[string]*entry

// namespaceOf returns the namespace of a Rollout, which is also that of its Services.
func namespaceOf(rollout string) string {
	namespace, _, _ := strings.Cut(rollout, "/")
	return namespace
}

// entry is what one Rollout owns on the route.
type entry struct {
	UID string `json:"uid,omitempty"`
	// stable and canary, sorted, in the Rollout's namespace
	Services []string `json:"services,omitempty"`
	Weighted bool     `json:"weighted,omitempty"` // the canary or an experiment has weight
	// the name of the only rule that was weighted; allRules for all
	Rule         string              `json:"rule,omitempty"`
	Destinations []string            `json:"destinations,omitempty"` // Services that an experiment added
	Sessions     map[string]any      `json:"sessions,omitempty"`     // the sessionPersistence that its rules have
	Managed      map[string][]string `json:"managed,omitempty"`      // managed route → marks of its rules
	Label        string              `json:"label,omitempty"`        // key of the in-progress label
}

// allRules is the Rule of an entry whose Rollout has no rule name.
const allRules = "*"

// active reports whether the entry is needed.
func (e *entry) active() bool { return e.Weighted || len(e.Destinations) > 0 || len(e.Managed) > 0 }

// parseRecord parses the annotation. If it is invalid, the caller continues with an empty record: weights must not
// depend on what others write there.
func parseRecord(text string) (record, error) {
	parsed := record{}
	if text == "" {
		return parsed, nil
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	if err := decoder.Decode(&parsed); err != nil {
		return record{}, fmt.Errorf("metadata.annotations[%q] cannot be parsed, so the managed rules in it are not "+
			"changed: %w", Annotation, err)
	}
	maps.DeleteFunc(parsed, func(rollout string, e *entry) bool { return e == nil || !strings.Contains(rollout, "/") })
	return parsed, nil
}

// text returns the annotation for the record; empty means none.
func (r record) text() string {
	if len(r) == 0 {
		return ""
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	// Encoding maps with string keys, strings and bools cannot fail.
	_ = encoder.Encode(r)
	return strings.TrimSpace(text.String())
}

// owners returns the Rollouts of the record, sorted.
func (r record) owners() []string { return slices.Sorted(maps.Keys(r)) }

// labelled reports whether a Rollout other than rollout has the label with that key.
func (r record) labelled(key, rollout string) bool {
	for owner, e := range r {
		if owner != rollout && e.Label == key {
			return true
		}
	}
	return false
}

// The prefixes of the marks that identify a managed rule.
const (
	nameMark = "name:" // followed by spec.rules[].name
	hashMark = "hash:" // followed by the hash of the rule, if the schema has no names
)

// markOf returns the mark of a managed rule: its name, which is unique on the route, or a hash of its content.
func markOf(fields map[string]any) string {
	if name := stringField(fields, "name", ""); name != "" {
		return nameMark + name
	}
	// Encoding decoded JSON cannot fail and sorts keys; whole numbers have the same text whatever their Go type.
	text, _ := json.Marshal(fields)
	sum := sha256.Sum256(text)
	return hashMark + hex.EncodeToString(sum[:12])
}
