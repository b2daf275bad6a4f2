// Command testbounds finds upper bounds on wall-clock time in tests that gate a landing, and exits with status 1 if
// there are any. A test with such a bound measures how busy the machine is: it fails without a fault of the product.
//
// The rules of its findings, each with the usual fix:
//
//   - elapsed: the test fails when something took longer than a limit. Prove order or cause instead: the audit
//     log, a counter, a field of a Lease, a resourceVersion, a timestamp that the product wrote. Log how long it
//     took, or measure it in bench/ or in a file with the build tag timing.
//   - limit: a wait on real time ends after less than 2 minutes: a context, a timer, the timeout of an HTTP
//     client or of kubectl. Use package test/kit/await, whose only limit is await.Patience.
//   - sleep: the test waits for a fixed real time. Wait for a condition, or use a testing/synctest bubble.
//
// A finding is where the duration is written. Durations are followed through variables, fields, arguments and results,
// but not through sums. Code that runs only inside testing/synctest bubbles is not inspected, because the clock is fake
// there. Neither are bench/, files with the build tag timing, and the program e2e/cmd. The settings of e2e/demo are
// inspected: CI runs the demo with them.
//
// The comment //testbounds:allow <reason>, at the end of the line or alone on the line above, permits what is no
// bound on the product, such as a context that is there to expire. A comment without a reason, or without a finding,
// is an error.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	folder := flag.String("C", ".", "the root of the checkout")
	count := flag.Bool("count", false, "print only the number of findings, and exit with status 0")
	flag.Parse()
	p, err := load(*folder)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testbounds:", err)
		os.Exit(2)
	}
	findings := p.inspect()
	if *count {
		fmt.Println(len(findings))
		return
	}
	write(os.Stdout, findings)
	if len(findings) > 0 {
		os.Exit(1)
	}
}

// write prints findings, and how many there are of each rule.
func write(out io.Writer, findings []finding) {
	numbers := map[string]int{}
	for _, f := range findings {
		numbers[f.rule]++
		fmt.Fprintf(out, "%s:%d: %s: %s\n", f.file, f.line, f.rule, f.text)
	}
	fmt.Fprintf(out, "%d upper bounds on wall-clock time: %d elapsed, %d limit, %d sleep, %d comment\n",
		len(findings), numbers["elapsed"], numbers["limit"], numbers["sleep"], numbers["comment"])
}
