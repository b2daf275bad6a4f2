// Command routers prints the limits of the routers' benchmarks in one table and fails when one is missed. It reads the
// JSON results from the files that are its arguments.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/benchresult"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "bench/routers: %v\n", err)
		os.Exit(1)
	}
}

// results are the fields that it reads from a benchmark's results.
type results struct {
	Plugin string              `json:"plugin"`
	Limits []benchresult.Limit `json:"limits"`
}

// errNoLimits is returned for a file that does not contain the results of a router's benchmark.
var errNoLimits = errors.New("no plugin or no limits")

// run is the program with its environment as arguments.
func run(files []string, stdout io.Writer) error {
	columns := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "router\tfigure\tmeasured\tvalue\tallowed\t\t")
	var errs error
	for _, file := range files {
		text, err := os.ReadFile(filepath.Clean(file)) //nolint:gosec // the developer specifies the files
		if err != nil {
			return err
		}
		var read results
		if err := json.Unmarshal(text, &read); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if read.Plugin == "" || len(read.Limits) == 0 {
			return fmt.Errorf("%s: %w", file, errNoLimits)
		}
		for _, limit := range read.Limits {
			fmt.Fprintf(columns, "%s\t%s\n", read.Plugin, limit.Row())
		}
		if err := benchresult.Verdict(read.Limits); err != nil {
			errs = errors.Join(errs, fmt.Errorf("%s: %w", read.Plugin, err))
		}
	}
	return errors.Join(columns.Flush(), errs)
}
