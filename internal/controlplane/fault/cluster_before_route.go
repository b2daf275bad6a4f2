//go:build mutant_cluster_before_route

package fault

const active = clusterBeforeRoute
