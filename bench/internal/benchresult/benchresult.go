// Package benchresult checks a benchmark's results against their limits and publishes them.
package benchresult

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Limit is a value and its limit.
type Limit struct {
	// Name describes the value, with its unit.
	Name string `json:"name"`
	// Value is the measured value.
	Value float64 `json:"value"`
	// Limit is the maximum, or the minimum if AtLeast is set.
	Limit float64 `json:"limit"`
	// Of contains the operands of a ratio, such as "2.1 ms, bare write 1.9 ms".
	Of string `json:"of,omitempty"`
	// AtLeast reports whether Limit is a minimum.
	AtLeast bool `json:"atLeast,omitempty"`
}

// isKept reports whether the value is within its limit. NaN never is.
func (l Limit) isKept() bool {
	if l.AtLeast {
		return l.Value >= l.Limit
	}
	return l.Value <= l.Limit
}

// boundText returns the words for the allowed side of the limit.
func (l Limit) boundText() string {
	if l.AtLeast {
		return "at least"
	}
	return "at most"
}

// Print writes a header and one line per limit with tab-terminated columns, for a text/tabwriter. after is the end of a
// line.
func Print(w io.Writer, limits []Limit, after string) {
	fmt.Fprintf(w, "\tlimit\tvalue\tallowed\t\t%s\n", after)
	for _, check := range limits {
		passed := map[bool]string{true: "ok", false: "MISSED"}[check.isKept()]
		fmt.Fprintf(w, "\t%s\t%.2f\t%s %.2f\t%s\t%s\n", check.Name, check.Value, check.boundText(), check.Limit, passed,
			after)
	}
}

// Row returns the limit as tab-terminated cells of a table's row: its name, the operands, the value, the allowed
// values, and whether it is kept.
func (l Limit) Row() string {
	verdict := map[bool]string{true: "ok", false: "MISSED"}[l.isKept()]
	return fmt.Sprintf("%s\t%s\t%.2f\t%s %.2f\t%s\t", l.Name, l.Of, l.Value, l.boundText(), l.Limit, verdict)
}

// Text returns the value and the allowed values.
func (l Limit) Text() string {
	sign := "≤"
	if l.AtLeast {
		sign = "≥"
	}
	return fmt.Sprintf("%.2f (%s %.4g)", l.Value, sign, l.Limit)
}

// Share returns the value as a share of its limit: at most 1 if the limit is kept. Of a limit of 0, nothing is 0, and
// anything else infinite.
func (l Limit) Share() float64 {
	switch {
	case l.AtLeast:
		return l.Limit / l.Value
	case l.Limit == 0 && l.Value == 0:
		return 0
	}
	return l.Value / l.Limit
}

// Verdict returns an error with the names of all values that miss their limits.
func Verdict(limits []Limit) error {
	var errs error
	for _, check := range limits {
		if !check.isKept() {
			missed := fmt.Errorf("%s is %.2f, %s %.2f is allowed", check.Name, check.Value, check.boundText(), check.Limit)
			errs = errors.Join(errs, missed)
		}
	}
	return errs
}

// Publish writes results as JSON to file, which only the user may read, or to stdout if file is empty. Then it returns
// Verdict's error: results that miss a limit are published, too.
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
