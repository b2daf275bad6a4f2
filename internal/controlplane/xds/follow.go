package xds

// Follower is told of streams as things happen on them, for what can't wait for a poll. Its methods
// are called from the streams' goroutines and must not block. It may keep what it is shown until the
// stream is closed.
type Follower interface {
	// Opened is called when a proxy connects, and Closed when its stream ends, once for each Opened.
	Opened(stream StreamState)
	Closed(stream StreamState)
	// Confirmed is called when a proxy has confirmed endpoints.
	Confirmed(stream StreamState)
}

// nobody is the Follower of a server that was given none.
type nobody struct{}

func (nobody) Opened(StreamState)    {}
func (nobody) Closed(StreamState)    {}
func (nobody) Confirmed(StreamState) {}

// Serves says that the proxy has confirmed the endpoints of that name as it was last sent them, and
// that one of them takes new requests.
func (v StreamState) Serves(endpoints string) bool {
	v.stream.mu.Lock()
	defer v.stream.mu.Unlock()
	rec := v.stream.session.look(endpointKind, endpoints)
	return rec.inSync() && rec.sent.known() && rec.sent.serving
}
