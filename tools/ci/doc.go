// Command ci runs the project's checks: the stages of one tier, in order, two at a time.
//
//	ci quick      the inner loop: lint, unit tests, make test-inside, the canary half of the demo
//	ci landing    what decides whether a change lands (.ci/run)
//	ci full       all stages; an interrupted run continues where it stopped (make ci-full)
//
// The stages, and what each one needs, are the table in stages.go. Each stage is a call of make, so that every stage
// can be run manually.
//
// A failed stage runs a second time, alone, after all others. If it passes then, the run passes, and the summary lists
// it under "flaky". If the stage consists of Go tests, only the failed tests run again (make test-one).
//
// A line "invariant broken: …" in the output of a stage means that the product broke a promise, for example that a
// request failed. It is listed under "invariant" even if the second attempt passed.
//
// A stage with inputs is cached: it does not run if it has passed on this machine with the same content of these
// inputs. In the full tier the inputs of every stage are the whole tree. The flag --fresh ignores the cache.
//
// With --compatibility, the results are also printed for each version of other projects that a page of the documents
// names with its stages (make compatibility).
//
// The last line of the output is a summary in JSON.
package main
