//go:build mutant_swapped_endpoints

package fault

const active = swappedEndpoints
