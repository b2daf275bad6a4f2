package compare

import (
	_ "embed"
	"errors"
	"slices"
	"strings"
)

// Script takes a snapshot of a machine, as root, in the format that Parse reads.
//
//go:embed snapshot.sh
var Script string

// Sections of a snapshot that the comparison treats specially.
const (
	sectionFiles   = "files"
	sectionModules = "modules"
	sectionEnd     = "end"
)

// Sysctls is the section of kernel settings.
const Sysctls = "sysctls"

// errCut is the error of an incomplete snapshot.
var errCut = errors.New("the snapshot is incomplete: its last section is missing")

// Snapshot is the state of a machine: section name to items.
type Snapshot map[string][]Item

// Item is one object of a machine.
type Item struct {
	// Name identifies the item, such as a path.
	Name string
	// State contains the item's other properties.
	State string
}

// Parse reads the script's output.
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
