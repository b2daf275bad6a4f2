// Package fault defines a constant for each fault that e2e/suites/mutants builds into the interceptor. Without build
// tags all constants are false, and the compiler removes the guarded code. The tags mutant,mutant_early_ack make
// EarlyACK true, and so on: an unknown tag does not compile.
package fault

type mutant int

const (
	none mutant = iota
	swappedEndpoints
	clusterBeforeRoute
	earlyACK
	briefWrongWeight
	unfinishedAbort
)

const (
	// SwappedEndpoints swaps the endpoints of two backends.
	SwappedEndpoints = active == swappedEndpoints
	// ClusterBeforeRoute deletes a cluster although routes use it.
	ClusterBeforeRoute = active == clusterBeforeRoute
	// EarlyACK reports an ACK for an object as soon as the proxy is connected.
	EarlyACK = active == earlyACK
	// BriefWrongWeight publishes wrong weights for 300 ms before the correct ones.
	BriefWrongWeight = active == briefWrongWeight
	// UnfinishedAbort leaves 5 % of the requests on the canary after its weights are removed.
	UnfinishedAbort = active == unfinishedAbort

	// SlowRoutes delays route updates, so that requests are affected by ClusterBeforeRoute and EarlyACK.
	SlowRoutes = ClusterBeforeRoute || EarlyACK
)
