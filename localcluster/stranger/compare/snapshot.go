package compare

import (
	_ "embed"
	"errors"
	"slices"
	"strings"
)

// Script looks at a machine, as root, and prints what Parse reads.
//
//go:embed snapshot.sh
var Script string

// Sections of a snapshot that mean something to the comparison.
const (
	sectionFiles   = "files"
	sectionModules = "modules"
	sectionEnd     = "end"
)

// Sysctls is the section of kernel settings.
const Sysctls = "sysctls"

// errCut is the error of a snapshot that isn't whole.
var errCut = errors.New("the snapshot is cut off: its last section is missing")

// Snapshot is what a machine is like: the name of a section to what was found.
type Snapshot map[string][]Item

// Item is one thing of a machine.
type Item struct {
	// Name tells it apart, such as a path.
	Name string
	// State is all else that is known of it.
	State string
}

// Parse reads what the script has printed.
func Parse(text string) (Snapshot, error) {
	out := Snapshot{}
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if name, found := strings.CutPrefix(line, "@@ "); found {
			section = name
			out[section] = nil
			continue
		}
		if section == "" || strings.TrimSpace(line) == "" {
			continue
		}
		name, state, _ := strings.Cut(line, "\t")
		out[section] = append(out[section], Item{strings.TrimSpace(name), strings.TrimSpace(state)})
	}
	if _, whole := out[sectionEnd]; !whole {
		return nil, errCut
	}
	delete(out, sectionEnd)
	for _, items := range out {
		slices.SortFunc(items, func(a, b Item) int {
			return strings.Compare(a.Name+"\t"+a.State, b.Name+"\t"+b.State)
		})
	}
	return out, nil
}
