// Command testbounds finds upper bounds on wall-clock time in tests that gate a landing, and exits with status 1 if
// there are any. A test with such a bound measures how busy the machine is: it fails without a fault of the product.
//
// The rules of its findings, each with the usual fix:
//
//   - elapsed: the test fails when something took longer than a limit. Prove order or cause instead: the audit
//     log, a counter, a field of a Lease, a resourceVersion, a timestamp that the product wrote. Log how long it
//     took, or measure it in bench/ or in a file with the build tag timing.
//   - limit: a wait on real time ends after less than 2 minutes: a context, a timer, the timeout of an HTTP
//     client or of kubectl, or an argument of a function that waits. Use package test/kit/await, whose only limit
//     is await.Patience.
//   - sleep: the test waits for a fixed real time. Wait for a condition, or use a testing/synctest bubble.
//   - lower: the test fails when something took less than a limit by the test's own clock. Use timestamps that
//     the product wrote. This rule fails the run only with -strict.
//
// Code that runs only inside testing/synctest bubbles is not judged, because the clock is fake there. Neither are
// bench/, files with the build tag timing, and the program e2e/cmd. The settings of e2e/demo are judged: CI runs the
// demo with them.
//
// The comment //testbounds:allow <reason>, at the end of the line or alone on the line above, permits what is no
// bound on the product, such as a context that is there to expire. A comment without a reason, or without a finding,
// is an error.
package main

import (
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
)

func main() {
	folder := flag.String("C", ".", "the root of the checkout")
	count := flag.Bool("count", false, "print only the number of upper bounds, and exit with status 0")
	strict := flag.Bool("strict", false, "fail on lower bounds too")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "testbounds: unexpected argument", flag.Arg(0))
		os.Exit(2)
	}
	failing, err := run(os.Stdout, os.DirFS(*folder), *count, *strict)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testbounds:", err)
		os.Exit(2)
	}
	if failing && !*count {
		os.Exit(1)
	}
}

// run judges a checkout, prints the findings and a total, and returns whether any of them is against the rules.
func run(out io.Writer, checkout fs.FS, count, strict bool) (failing bool, err error) {
	findings, err := judge(checkout)
	if err != nil {
		return false, err
	}
	numbers := map[rule]int{}
	for _, f := range findings {
		numbers[f.rule]++
		if !count && (f.rule != lower || strict) {
			fmt.Fprintln(out, f)
		}
	}
	upper := len(findings) - numbers[lower]
	if count {
		fmt.Fprintln(out, upper)
	} else {
		const total = "%d upper bounds on wall-clock time: %d elapsed, %d limit, %d sleep, %d comment; lower bounds: %d\n"
		fmt.Fprintf(out, total, upper, numbers[elapsed], numbers[limit], numbers[sleep], numbers[comment], numbers[lower])
	}
	return upper > 0 || strict && numbers[lower] > 0, nil
}
