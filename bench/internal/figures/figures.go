// Package figures publishes a benchmark's results and has the limits that they must keep.
package figures

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Limit is a value and the limit that it must keep.
type Limit struct {
	// Name says what was measured, with its unit.
	Name string `json:"name"`
	// Value is what was measured.
	Value float64 `json:"value"`
	// Limit is what it may be at most, or with AtLeast what it must be at least.
	Limit float64 `json:"limit"`
	// Of says what a ratio is of, such as "2.1 ms, bare write 1.9 ms".
	Of string `json:"of,omitempty"`
	// AtLeast says that Limit is the least.
	AtLeast bool `json:"atLeast,omitempty"`
}

// kept says whether the value keeps its limit. A value that is not a number keeps none.
func (l Limit) kept() bool {
	if l.AtLeast {
		return l.Value >= l.Limit
	}
	return l.Value <= l.Limit
}

// bound says on which side of the limit a value is allowed.
func (l Limit) bound() string {
	if l.AtLeast {
		return "at least"
	}
	return "at most"
}

// Print writes a header and a line per limit, their columns ended by tabs, for a text/tabwriter. after is what ends
// a line.
func Print(w io.Writer, limits []Limit, after string) {
	fmt.Fprintf(w, "\tlimit\tvalue\tallowed\t\t%s\n", after)
	for _, check := range limits {
		passed := map[bool]string{true: "ok", false: "MISSED"}[check.kept()]
		fmt.Fprintf(w, "\t%s\t%.2f\t%s %.2f\t%s\t%s\n", check.Name, check.Value, check.bound(), check.Limit, passed, after)
	}
}

// Row is the limit as the cells of a table's row, each ended by a tab: its name, what was measured, the value, what is allowed, and whether it is kept.
func (l Limit) Row() string {
	kept := map[bool]string{true: "ok", false: "MISSED"}[l.kept()]
	return fmt.Sprintf("%s\t%s\t%.2f\t%s %.2f\t%s\t", l.Name, l.Of, l.Value, l.bound(), l.Limit, kept)
}

// Verdict fails when a value misses its limit. The error names all of them.
func Verdict(limits []Limit) error {
	var errs error
	for _, check := range limits {
		if !check.kept() {
			missed := fmt.Errorf("%s is %.2f, %s %.2f is allowed", check.Name, check.Value, check.bound(), check.Limit)
			errs = errors.Join(errs, missed)
		}
	}
	return errs
}

// Publish writes results as JSON to file, which only the user may read, or to stdout where file is empty. Then it
// fails as Verdict does: results that miss a limit are published all the same.
func Publish(results any, limits []Limit, file string, stdout io.Writer) error {
	encoded, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	if file == "" {
		fmt.Fprintf(stdout, "\n%s\n", encoded)
	} else if err := os.WriteFile(file, append(encoded, '\n'), 0o600); err != nil {
		return err
	}
	return Verdict(limits)
}
