package session

const (
	// MaxNameLength is the longest resource name that a proxy may subscribe to, in bytes. The names of this control
	// plane consist of three Kubernetes names of at most 253 characters.
	MaxNameLength = 1024
	// NamesLimit is how many names of one kind a stream may subscribe to. Further names are refused: to end the stream
	// would not help, because the proxy connects again with the same names.
	NamesLimit = 100_000
	// nameBytesLimit is the total length of all names that a stream may subscribe to, in bytes; further names are
	// refused. The names of 100,000 resources of this control plane have about 100 bytes each.
	nameBytesLimit = 16 << 20
	// unknownBytesLimit is how many bytes of memory the names of a stream may take that are not published: those of 14,000
	// resources that were removed while the proxy was disconnected. fleetUnknownLimit is that of all streams of a fleet.
	// The names of published resources are shared by all streams. unknownNameCost is what such a name takes in addition
	// to its bytes, in bytes.
	unknownBytesLimit, fleetUnknownLimit, unknownNameCost = 8 << 20, 64 << 20, 500
)

// Request is a discovery request of either mode.
type Request struct {
	// TypeURL is the type of the resources that the request is about.
	TypeURL string
	// Nonce is that of the response that the request answers; empty for none.
	Nonce string
	// Rejected is true for a NACK. Message is its reason.
	Rejected bool
	Message  string
	// Subscribe, Unsubscribe and InitialVersions are set in delta. InitialVersions are the versions that a
	// reconnecting proxy has, by resource name.
	Subscribe, Unsubscribe []string
	InitialVersions        map[string]string
	// Names is the whole subscription, in state of the world.
	Names []string
	// Version is the version_info of the last response of the kind that the proxy accepted, in state of the world.
	Version string
}

// Response is a discovery response of either mode.
type Response struct {
	Kind      Kind
	Nonce     string
	Resources []*Resource // in order of name
	// Removed are the names of removed resources. In state of the world they are not sent: a removed resource is
	// missing from the response.
	Removed []string

	number uint64 // of all responses of the stream
	alone  string // the only resource that can be the reason of a NACK; empty for none
}

// Version is the version_info of a response in state of the world: a hash of what it contains.
func (r Response) Version() string {
	var all []byte
	for _, res := range r.Resources {
		sent := res.sentVersion()
		all = append(append(append(all, res.name...), 0), sent[:]...)
	}
	return hashOf(all).String()
}

// Answer is a proxy's ACK or NACK of one response.
type Answer struct {
	Kind     Kind
	Accepted bool
	Message  string   // the reason of a NACK
	Names    []string // the resources that may be the reason of a NACK
}

// Output is the result of one step of a session.
type Output struct {
	Responses []Response // to be sent in this order
	Answer    *Answer    // the ACK or NACK in the request of this step; nil for none
	// Refused is the number of names in the request that exceed the limits. The proxy receives no such resource.
	Refused int
}
