// Package versions compares the pinned versions of other projects with their newest ones. The pins that it follows are
// a table in docs/dev/versions.md.
package versions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// Errors about the table of pins.
var (
	// ErrTable is returned for a page without a valid table.
	ErrTable = errors.New("the table of versions is invalid")
	// ErrPin is returned if a go.mod has another version than the table, or does not explain an older one.
	ErrPin = errors.New("the pin and the table differ")
	// ErrNewer is returned if a version exists that the table does not list.
	ErrNewer = errors.New("newer versions exist: update, or list them in docs/dev/versions.md")
)

// Latest is the line of all versions.
const Latest = "latest"

// Pin is a pinned module.
type Pin struct {
	// Module is the path of the module.
	Module string
	// Folders are the folders whose go.mod pins it, relative to the root of the repository.
	Folders []string
	// Version is the pinned version.
	Version string
	// Line is the line of versions in which updates are looked for, such as v1.9, or Latest.
	Line string
	// Newest is the newest version of the line that the table lists, also if it is not used.
	Newest string
}

// Parse returns the pins in the table of a page, with the columns Module, Pinned in, Version, Line and Newest, and any
// others.
func Parse(page string) ([]Pin, error) {
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ((?:`[^`]+`(?:, )?)+) \\| (\\S+) \\| (\\S+) \\| (\\S+) \\|")
	var pins []Pin
	for _, cells := range row.FindAllStringSubmatch(page, -1) {
		pin := Pin{Module: cells[1], Version: cells[3], Line: cells[4], Newest: cells[5]}
		for folder := range strings.SplitSeq(cells[2], ", ") {
			pin.Folders = append(pin.Folders, strings.Trim(folder, "`"))
		}
		if !semver.IsValid(pin.Version) || !semver.IsValid(pin.Newest) || pin.Line != Latest && !semver.IsValid(pin.Line) {
			return nil, fmt.Errorf("%w: %s", ErrTable, cells[0])
		}
		pins = append(pins, pin)
	}
	if len(pins) == 0 {
		return nil, fmt.Errorf("%w: it has no rows", ErrTable)
	}
	return pins, nil
}

// Check returns an error if a go.mod in a repository does not have the pinned version, or if the version is older than
// the newest one and no comment at the line of the module contains the reason.
func (p Pin) Check(repository fs.FS) error {
	var all error
	for _, folder := range p.Folders {
		name := path.Join(folder, "go.mod")
		content, err := fs.ReadFile(repository, name)
		if err != nil {
			all = errors.Join(all, fmt.Errorf("read the pin of %s: %w", p.Module, err))
			continue
		}
		file, err := modfile.ParseLax(name, content, nil)
		if err != nil {
			all = errors.Join(all, fmt.Errorf("read the pin of %s: %w", p.Module, err))
			continue
		}
		i := slices.IndexFunc(file.Require, func(r *modfile.Require) bool { return r.Mod.Path == p.Module })
		switch {
		case i < 0:
			all = errors.Join(all, fmt.Errorf("%w: %s does not require %s", ErrPin, name, p.Module))
		case file.Require[i].Mod.Version != p.Version:
			all = errors.Join(all,
				fmt.Errorf("%w: %s has %s, the table %s", ErrPin, name, file.Require[i].Mod, p.Version))
		case p.Version != p.Newest && !isExplained(file.Require[i]):
			all = errors.Join(all, fmt.Errorf("%w: %s: %s is older than %s: add a comment with the reason", ErrPin, name,
				file.Require[i].Mod, p.Newest))
		}
	}
	return all
}

// isExplained reports whether a requirement has a comment, apart from the one of the go command.
func isExplained(requirement *modfile.Require) bool {
	comments := slices.Concat(requirement.Syntax.Before, requirement.Syntax.Suffix)
	return slices.ContainsFunc(comments, func(comment modfile.Comment) bool {
		text := strings.TrimPrefix(strings.TrimSpace(strings.TrimPrefix(comment.Token, "//")), "indirect")
		return strings.Trim(text, "; ") != ""
	})
}

// Lookup returns the newest released version of a module in a line.
type Lookup func(ctx context.Context, module, line string) (string, error)

// Report writes a table of the pins with their newest versions. It returns ErrNewer if a version exists that is newer
// than the one in the table of the page, and the errors of lookups.
func Report(ctx context.Context, pins []Pin, lookup Lookup, out io.Writer) error {
	var all error
	var text strings.Builder
	text.WriteString("| Module | Line | Pinned | Listed | Newest |\n|---|---|---|---|---|\n")
	for _, pin := range pins {
		newest, err := lookup(ctx, pin.Module, pin.Line)
		if err != nil {
			all = errors.Join(all, err)
			newest = "unknown"
		}
		isNew := err == nil && semver.Compare(newest, pin.Newest) > 0
		if isNew {
			all = errors.Join(all, fmt.Errorf("%w: %s %s", ErrNewer, pin.Module, newest))
			newest = "**" + newest + "**"
		}
		fmt.Fprintf(&text, "| `%s` | %s | %s | %s | %s |\n", pin.Module, pin.Line, pin.Version, pin.Newest, newest)
	}
	if _, err := io.WriteString(out, text.String()); err != nil {
		return errors.Join(all, fmt.Errorf("write the versions: %w", err))
	}
	return all
}
