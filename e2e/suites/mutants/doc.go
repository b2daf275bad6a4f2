// Package mutants proves that every check of a canary can fail. It runs the project's programs with one injected fault
// each on a real cluster. Exactly the check for that fault must report it. The original programs must pass all checks,
// before and after.
package mutants
