package compare

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Kind is the kind of a difference.
type Kind string

// Kinds of differences.
const (
	New     Kind = "new"
	Gone    Kind = "gone"
	Changed Kind = "changed"
)

// Finding is one difference.
type Finding struct {
	// Section is its section of the snapshot, such as "files".
	Section string
	// Kind is the kind of difference.
	Kind Kind
	// Item is the current state of the item, or the former state if the item is gone.
	Item Item
	// Before is the former state of a changed item.
	Before string
}

// String formats a finding as one line.
func (f Finding) String() string {
	text := fmt.Sprintf("%s: %s: %s", f.Section, f.Kind, f.Item.Name)
	switch {
	case f.Kind == Changed:
		return fmt.Sprintf("%s: %q is now %q", text, f.Before, f.Item.State)
	case f.Item.State == "":
		return text
	}
	return text + " (" + f.Item.State + ")"
}

// Result contains the differences between two snapshots, except ignored ones.
type Result struct {
	// Unexpected are unexpected differences.
	Unexpected []Finding
	// Allowed counts expected differences by reason.
	Allowed map[string]int
	// UntilReboot are loaded kernel modules and the settings that they added.
	UntilReboot []Finding
}

// Clean reports whether there is no unexpected difference.
func (r *Result) Clean() bool { return len(r.Unexpected) == 0 }

// Diff compares two snapshots.
func Diff(before, after Snapshot, ignored, allowed []Rule) Result {
	out := Result{Allowed: map[string]int{}}
	names := map[string]bool{}
	for _, snapshot := range []Snapshot{before, after} {
		for name := range snapshot {
			names[name] = true
		}
	}
	loaded := false
	for _, f := range diffSection(sectionModules, before[sectionModules], after[sectionModules]) {
		loaded = loaded || f.Kind == New
	}
	for _, section := range slices.Sorted(maps.Keys(names)) {
		for _, f := range diffSection(section, before[section], after[section]) {
			out.add(f, ignored, allowed, loaded)
		}
	}
	return out
}

// add appends a finding to its list.
func (r *Result) add(f Finding, ignored, allowed []Rule, loaded bool) {
	for _, rule := range ignored {
		if rule.matches(f.Section, f.Item.Name) {
			return
		}
	}
	for _, rule := range allowed {
		if rule.matches(f.Section, f.Item.Name) {
			r.Allowed[rule.Reason]++
			return
		}
	}
	untilReboot := f.Section == sectionModules ||
		f.Section == sectionFiles && strings.HasPrefix(f.Item.Name, "/dev/") && loaded && isControl(f.Item.Name) ||
		f.Section == Sysctls && f.Kind == New && loaded
	if untilReboot {
		r.UntilReboot = append(r.UntilReboot, f)
		return
	}
	r.Unexpected = append(r.Unexpected, f)
}

// isControl reports whether a device node belongs to a kernel module and not to a disk or a terminal.
func isControl(path string) bool {
	return slices.Contains([]string{"/dev/loop-control", "/dev/fuse", "/dev/mapper/control"}, path)
}

// diffSection compares one section. A name may occur more than once, as a program that runs twice does. Then its states
// are compared as a whole.
func diffSection(section string, before, after []Item) []Finding {
	former, current := byName(before), byName(after)
	names := maps.Clone(former)
	maps.Copy(names, current)
	var out []Finding
	for _, name := range slices.Sorted(maps.Keys(names)) {
		old, now := former[name], current[name]
		switch {
		case slices.Equal(old, now):
		case len(old) == 1 && len(now) == 1:
			out = append(out, Finding{section, Changed, Item{name, now[0]}, old[0]})
		default:
			out = append(out, differences(section, name, old, now)...)
		}
	}
	return out
}

// differences returns the elements of one list that the other lacks.
func differences(section, name string, old, now []string) []Finding {
	var out []Finding
	for _, state := range now {
		if i := slices.Index(old, state); i >= 0 {
			old = slices.Delete(slices.Clone(old), i, i+1)
			continue
		}
		out = append(out, Finding{section, New, Item{name, state}, ""})
	}
	for _, state := range old {
		out = append(out, Finding{section, Gone, Item{name, state}, ""})
	}
	return out
}

func byName(items []Item) map[string][]string {
	out := map[string][]string{}
	for _, item := range items {
		out[item.Name] = append(out[item.Name], item.State)
	}
	return out
}
