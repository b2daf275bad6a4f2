package holding

// Occasion is what the owner of an app should hear of.
type Occasion int

const (
	// ColdStart says that a request waits, and none did before.
	ColdStart Occasion = iota
	// TurnedAway says that a request was refused because as many waited as may.
	TurnedAway
	// TooLate says that a request has waited in vain.
	TooLate
	// FailedOver says that another Service has answered one that has.
	FailedOver
)
