//go:build mutant_brief_wrong_weight

package fault

const active = briefWrongWeight
