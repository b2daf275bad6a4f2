// Command table prints the limits of all benchmarks in one table, and fails when one is missed. Its arguments are the
// JSON results of the benchmarks, as NAME=FILE. With --folder it writes the table as JSON, and an image of each
// benchmark's values as shares of their limits, and one of values over time if there are any.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/benchresult"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/plot"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "bench/table: %v\n", err)
		os.Exit(1)
	}
}

// results are the fields that it reads from a benchmark's results.
type results struct {
	Name   string              `json:"benchmark"`
	Limits []benchresult.Limit `json:"limits"`
	Lines  *plot.Diagram       `json:"lines,omitempty"`
}

var (
	// errArgument is returned for an argument that is not NAME=FILE.
	errArgument = errors.New("want NAME=FILE, with the JSON results of a benchmark")
	// errNoLimits is returned for a file that does not contain the results of a benchmark.
	errNoLimits = errors.New("no limits")
	// errNoResults is returned for a benchmark that has failed before it wrote its results.
	errNoResults = errors.New("no results: the benchmark has failed, see its output above")
)

// run is the program with its environment as arguments.
func run(arguments []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("table", flag.ContinueOnError)
	flags.SetOutput(stderr)
	folder := flags.String("folder", "", "`folder` for results.json and the images")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	var all []results
	for _, argument := range flags.Args() {
		read, err := readResults(argument)
		if err != nil {
			return err
		}
		all = append(all, read)
	}
	if err := printTable(all, stdout); err != nil {
		return err
	}
	var errs error
	if *folder != "" {
		errs = store(all, *folder)
	}
	for _, read := range all {
		err := benchresult.Verdict(read.Limits)
		if len(read.Limits) == 0 {
			err = errNoResults
		}
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("%s: %w", read.Name, err))
		}
	}
	return errs
}

// readResults reads the results of an argument. They have no limits if the file does not exist.
func readResults(argument string) (read results, err error) {
	name, file, has := strings.Cut(argument, "=")
	if !has {
		return results{}, fmt.Errorf("%s: %w", argument, errArgument)
	}
	text, err := os.ReadFile(filepath.Clean(file))
	if errors.Is(err, fs.ErrNotExist) {
		return results{Name: name}, nil
	}
	if err != nil {
		return results{}, err
	}
	if err := json.Unmarshal(text, &read); err != nil {
		return results{}, fmt.Errorf("%s: %w", file, err)
	}
	if read.Name = name; len(read.Limits) == 0 {
		return results{}, fmt.Errorf("%s: %w", file, errNoLimits)
	}
	return read, nil
}

// printTable prints all limits.
func printTable(all []results, w io.Writer) error {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "benchmark\tfigure\tmeasured\tvalue\tallowed\t\t")
	for _, read := range all {
		if len(read.Limits) == 0 {
			fmt.Fprintf(columns, "%s\tno results\t\t\t\tMISSED\t\n", read.Name)
		}
		for _, limit := range read.Limits {
			fmt.Fprintf(columns, "%s\t%s\n", read.Name, limit.Row())
		}
	}
	return columns.Flush()
}

// store writes the results and an image of each benchmark to a folder.
func store(all []results, folder string) error {
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	files := map[string]string{"results.json": string(text) + "\n"}
	for _, read := range all {
		if len(read.Limits) == 0 {
			continue
		}
		var bars []plot.Bar
		for _, limit := range read.Limits {
			bars = append(bars, plot.Bar{Label: limit.Name, Text: limit.Text(), Share: limit.Share()})
		}
		if read.Lines != nil {
			files[read.Name+"-lines.svg"] = plot.Lines(read.Name, *read.Lines)
		}
		files[read.Name+".svg"] = plot.Bars(read.Name+": values as shares of their limits", bars)
	}
	var errs error
	for name, content := range files {
		//nolint:gosec // the files are part of the documentation
		errs = errors.Join(errs, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644))
	}
	return errs
}
