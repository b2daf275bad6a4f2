package main

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

// version is a row of the table of versions in docs/reference/compatibility.md.
type version struct {
	Project, Version string
	// Stages are the stages that run it.
	Stages []string
}

// versions returns the rows of a page whose second cell is a version, and whose further cells name stages as code. Other
// tables of the page may have a version in their second cell, but name no stage.
func versions(page string) []version {
	row := regexp.MustCompile(`(?m)^\| ([^|]+) \| (\d+\.\d+\.\d+) \| (.+) \|$`)
	code := regexp.MustCompile("`([^`]+)`")
	var found []version
	for _, cells := range row.FindAllStringSubmatch(page, -1) {
		v := version{Project: cells[1], Version: cells[2]}
		for _, stage := range code.FindAllStringSubmatch(cells[3], -1) {
			v.Stages = append(v.Stages, stage[1])
		}
		if len(v.Stages) > 0 {
			found = append(found, v)
		}
	}
	return found
}

// readVersions returns the versions of a page, which has at least one.
func readVersions(file string) ([]version, error) {
	page, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--compatibility: %w", err)
	}
	found := versions(string(page))
	if len(found) == 0 {
		return nil, fmt.Errorf("--compatibility: %s has no table of versions", file)
	}
	return found, nil
}

// stagesOf returns the names of the stages that run versions.
func stagesOf(listed []version) (names []string) {
	for _, v := range listed {
		for _, stage := range v.Stages {
			if !slices.Contains(names, stage) {
				names = append(names, stage)
			}
		}
	}
	return names
}

// compatibility is the result of each version for a person: the stages that ran it, by their results. A version is "not
// run" if none of its stages passed or failed.
func compatibility(listed []version, results []Result) string {
	statuses := map[string]Status{}
	for _, r := range results {
		statuses[r.Stage.Name] = r.Status
	}
	var text strings.Builder
	columns := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "VERSION\tRESULT\tSTAGES")
	for _, v := range listed {
		stages := map[string][]string{}
		for _, stage := range v.Stages {
			result := "not run"
			if status, isChosen := statuses[stage]; isChosen && status != Skipped {
				result = "passed"
				if status == Failed {
					result = "failed"
				}
			}
			stages[result] = append(stages[result], stage)
		}
		result, details := "not run", []string{}
		for _, status := range []string{"not run", "passed", "failed"} {
			if len(stages[status]) > 0 {
				result = status
			}
		}
		for _, status := range slices.Sorted(maps.Keys(stages)) {
			details = append(details, status+": "+strings.Join(stages[status], ", "))
		}
		fmt.Fprintf(columns, "%s %s\t%s\t%s\n", v.Project, v.Version, result, strings.Join(details, "; "))
	}
	_ = columns.Flush() // a strings.Builder takes everything
	return text.String()
}
