// Package mutants proves that every check of a canary can fail: it runs the
// project's programs with one fault each on a real cluster, and expects the check
// that the fault is made for to find it, and no other one to find anything. The
// programs as they are have to pass all checks, before and after.
package mutants
