package xds

// Callbacks are called when something happens on a stream, for what cannot wait for the next [Server.Poll]. They are
// called by the goroutines of the streams and must not block. They may keep a StreamState until OnStreamClosed.
type Callbacks interface {
	// OnStreamOpen is called when a proxy connects.
	OnStreamOpen(stream StreamState)
	// OnStreamClosed is called when the stream ends, once for each OnStreamOpen.
	OnStreamClosed(stream StreamState)
	// OnEndpointsAcked is called when a proxy has ACKed endpoints.
	OnEndpointsAcked(stream StreamState)
}

// noCallbacks are the Callbacks of a server without any.
type noCallbacks struct{}

func (noCallbacks) OnStreamOpen(StreamState)     {}
func (noCallbacks) OnStreamClosed(StreamState)   {}
func (noCallbacks) OnEndpointsAcked(StreamState) {}
