//go:build mutant_early_ack

package fault

const active = earlyACK
