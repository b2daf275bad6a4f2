package compare

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Kind says how a thing differs.
type Kind string

// Kinds of differences.
const (
	New     Kind = "new"
	Gone    Kind = "gone"
	Changed Kind = "changed"
)

// Finding is one thing that differs.
type Finding struct {
	// Section is where it is, such as "files".
	Section string
	// Kind says how it differs.
	Kind Kind
	// Item is the thing: as it was if it's gone, as it is now otherwise.
	Item Item
	// Before is the state that a changed thing had.
	Before string
}

// String shows a finding in one line.
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

// Result is what differs between two snapshots, but for noise.
type Result struct {
	// Left is what ought not to be there.
	Left []Finding
	// Allowed counts what may be left, by the reason.
	Allowed map[string]int
	// UntilReboot is loaded kernel modules and the settings that came with them.
	UntilReboot []Finding
}

// Clean tells whether nothing was left that ought not to be there.
func (r *Result) Clean() bool { return len(r.Left) == 0 }

// Diff compares two snapshots.
func Diff(before, after Snapshot, noise, allowed []Rule) Result {
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
			out.add(f, noise, allowed, loaded)
		}
	}
	return out
}

// add puts a finding where it belongs.
func (r *Result) add(f Finding, noise, allowed []Rule, loaded bool) {
	for _, rule := range noise {
		if rule.matches(f.Section, f.Item.Name) {
			return
		}
	}
	for _, rule := range allowed {
		if rule.matches(f.Section, f.Item.Name) {
			r.Allowed[rule.Why]++
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
	r.Left = append(r.Left, f)
}

// isControl tells whether a device node is one that a module brings, and not
// one of a disk or a terminal.
func isControl(path string) bool {
	return slices.Contains([]string{"/dev/loop-control", "/dev/fuse", "/dev/mapper/control"}, path)
}

// diffSection compares one section. A name may occur more than once, as that of
// a program does that runs twice: then states are compared as a whole.
func diffSection(section string, before, after []Item) []Finding {
	was, is := byName(before), byName(after)
	names := maps.Clone(was)
	maps.Copy(names, is)
	var out []Finding
	for _, name := range slices.Sorted(maps.Keys(names)) {
		old, now := was[name], is[name]
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

// differences lists what is in one list of states but not in the other.
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
