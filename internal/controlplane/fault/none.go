//go:build !mutant

package fault

const active = none
