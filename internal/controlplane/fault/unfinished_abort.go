//go:build mutant_unfinished_abort

package fault

const active = unfinishedAbort
