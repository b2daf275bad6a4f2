package output

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Format is a value of flag --output.
type Format string //nolint:recvcheck // a flag is set by pointer

// The formats. Table is the default of every command.
const (
	Table Format = "table"
	Wide  Format = "wide"
	JSON  Format = "json"
	YAML  Format = "yaml"
	Name  Format = "name"
)

// errUnknownFormat reports a value of --output that a command does not support.
var errUnknownFormat = errors.New("unknown format")

// Formats returns the names of all formats.
func Formats() []string {
	return []string{string(Table), string(Wide), string(JSON), string(YAML), string(Name)}
}

// IsObject reports whether the format prints a versioned object.
func (f Format) IsObject() bool { return f == JSON || f == YAML }

// String returns the name of the format.
func (f *Format) String() string { return string(*f) }

// Type returns the name of the type in help texts.
func (*Format) Type() string { return "format" }

// Set parses the name of a format.
func (f *Format) Set(text string) error {
	if !slices.Contains(Formats(), text) {
		return fmt.Errorf("%w: must be one of %s", errUnknownFormat, strings.Join(Formats(), ", "))
	}
	*f = Format(text)
	return nil
}
