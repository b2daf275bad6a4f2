package main

import (
	"bufio"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
)

// testFailure is a package whose tests failed.
type testFailure struct {
	// Package is the import path.
	Package string
	// Tests are the names of the top-level tests that failed. It is empty if the package failed as a whole, for example
	// because it does not compile, or because it ran into its timeout.
	Tests []string
}

// names returns the failed tests as "package Test", or the package alone.
func (f testFailure) names() []string {
	if len(f.Tests) == 0 {
		return []string{f.Package}
	}
	var names []string
	for _, test := range f.Tests {
		names = append(names, f.Package+" "+test)
	}
	return names
}

// failedTests finds the failed packages in the output of go test without -json: the names of a package's failed tests
// come before the line "FAIL", a tab, and the import path.
func failedTests(output io.Reader) ([]testFailure, error) {
	failedTest := regexp.MustCompile(`^--- FAIL: (\S+)`)
	failedPackage := regexp.MustCompile(`^FAIL\t(\S+)`)
	var failures []testFailure
	var tests []string
	err := eachLine(output, func(line string) {
		if found := failedTest.FindStringSubmatch(line); found != nil {
			tests = append(tests, found[1])
			return
		}
		// A line "FAIL" without a package comes before it.
		if found := failedPackage.FindStringSubmatch(line); found != nil {
			failures = append(failures, testFailure{found[1], tests})
			tests = nil
		}
	})
	return failures, err
}

// brokenInvariants finds the lines that report broken invariants, each once.
func brokenInvariants(output io.Reader) ([]string, error) {
	var broken []string
	err := eachLine(output, func(line string) {
		if _, text, found := strings.Cut(line, invariant.Prefix); found && !slices.Contains(broken, text) {
			broken = append(broken, text)
		}
	})
	return broken, err
}

// eachLine calls visit with each line, whatever its length.
func eachLine(output io.Reader, visit func(string)) error {
	lines := bufio.NewReader(output)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			visit(strings.TrimSuffix(line, "\n"))
		}
		switch err {
		case nil:
		case io.EOF:
			return nil
		default:
			return err
		}
	}
}
