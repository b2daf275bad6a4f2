// Command routers prints the limits of the benchmarks of the routers in one table, from the results that these have written as JSON to the files that are its
// arguments, and fails when one is missed.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/figures"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "bench/routers: %v\n", err)
		os.Exit(1)
	}
}

// results are what is read of a benchmark's results.
type results struct {
	Plugin string          `json:"plugin"`
	Limits []figures.Limit `json:"limits"`
}

// errNoLimits says that results are none of a router's benchmark.
var errNoLimits = errors.New("it has no plugin, or no limits")

// run is the program with its surroundings as arguments.
func run(files []string, stdout io.Writer) error {
	columns := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "router\tfigure\tmeasured\tvalue\tallowed\t\t")
	var errs error
	for _, file := range files {
		text, err := os.ReadFile(filepath.Clean(file)) //nolint:gosec // the developer names the files
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
		if err := figures.Verdict(read.Limits); err != nil {
			errs = errors.Join(errs, fmt.Errorf("%s: %w", read.Plugin, err))
		}
	}
	return errors.Join(columns.Flush(), errs)
}
