package holding

// Reason is why the owner of a workload gets an Event.
type Reason int

const (
	// ColdStart means that a request is queued, and none was before.
	ColdStart Reason = iota
	// Rejected means that a request was answered with 503 because a limit of queued requests was reached.
	Rejected
	// TimedOut means that a queued request was answered with 503 because no endpoint became ready in time.
	TimedOut
	// FailedOver means that the failover Service answers a queued request, because no endpoint became ready in time.
	FailedOver
)
