// Package figures publishes a benchmark's results and has the limits that they must keep.
package figures

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Limit is a value that must not be above its limit.
type Limit struct {
	// Name says what was measured, with its unit.
	Name string `json:"name"`
	// Value is what was measured.
	Value float64 `json:"value"`
	// Limit is what it may be at most.
	Limit float64 `json:"limit"`
}

// Print writes a line per limit, its columns ended by tabs, for a text/tabwriter. after is what ends a line.
func Print(w io.Writer, limits []Limit, after string) {
	for _, check := range limits {
		fmt.Fprintf(w, "\t%s\t%.2f\t%.2f\t%s\t%s\n", check.Name, check.Value, check.Limit, map[bool]string{true: "ok", false: "OVER"}[check.Value <= check.Limit], after)
	}
}

// Verdict fails when a value is above its limit. The error names all of them.
func Verdict(limits []Limit) error {
	var errs error
	for _, check := range limits {
		if check.Value > check.Limit {
			errs = errors.Join(errs, fmt.Errorf("%s is %.2f, at most %.2f is allowed", check.Name, check.Value, check.Limit))
		}
	}
	return errs
}

// Publish writes results as JSON to file, which only the user may read, or to stdout where file is empty. Then it fails as Verdict does: results that are over
// a limit are published all the same.
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
