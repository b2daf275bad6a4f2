// Package kit contains what tests of several packages share: an xDS client that subscribes, warms and ACKs as Envoy
// does; builders of HTTPScaledObjects, Services, EndpointSlices and TLS Secrets; the YAML of an Envoy configuration;
// and golden scenarios. Its subpackages run real components and in-memory servers.
package kit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/grpc"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

const (
	// xdsNodeID is the node id of every proxy's bootstrap.
	xdsNodeID = "kedify-proxy"
	// xdsMessageLimit is the maximum size of a response in bytes.
	xdsMessageLimit = 64 << 20
)

// XDSMode is the variant of the xDS protocol that an XDSClient uses.
type XDSMode int

const (
	// XDSDelta is incremental xDS, DELTA_GRPC in Envoy's bootstrap.
	XDSDelta XDSMode = iota
	// XDSStateOfTheWorld is GRPC in Envoy's bootstrap.
	XDSStateOfTheWorld
)

// String returns the mode's name in test output.
func (m XDSMode) String() string {
	if m == XDSStateOfTheWorld {
		return "sotw"
	}
	return "delta"
}

// XDSState is the state of an XDSClient: the accepted resources and the history of its streams. It is a copy, but the
// messages are shared and must not be changed.
type XDSState struct {
	// Mode is the variant of the protocol.
	Mode XDSMode
	// Clusters, Endpoints, Listeners and Scopes are the accepted resources by name.
	Clusters  map[string]*clusterv3.Cluster
	Endpoints map[string]*endpointv3.ClusterLoadAssignment
	Listeners map[string]*listenerv3.Listener
	Scopes    map[string]*routev3.ScopedRouteConfiguration
	// Versions are the versions of the accepted resources, by type URL and name. In state of the world a resource has
	// the version of its response.
	Versions map[string]map[string]string
	// Warming are the new or changed clusters that wait for endpoints.
	Warming []string
	// Broken has an entry each time routes named a cluster that Envoy could not use, because the cluster was unknown,
	// or new and still warming. Envoy would have answered requests with 503.
	Broken []string
	// Deliveries are the responses received on all streams so far, oldest first.
	Deliveries []XDSDelivery
	// Streams is the number of streams opened so far.
	Streams int
	// StreamError is the error that ended the current stream; nil while it is open.
	StreamError error
}

// XDSDelivery describes one response.
type XDSDelivery struct {
	// TypeURL is the type of the response.
	TypeURL string
	// Names are the names of the resources in the order of the response.
	Names []string
	// Removed are the names of removed resources, only in delta.
	Removed []string
	// Rejected is true if the client sent a NACK.
	Rejected bool
}

// Delivered returns the number of responses of a type.
func (s XDSState) Delivered(typeURL string) int {
	count := 0
	for _, d := range s.Deliveries {
		if d.TypeURL == typeURL {
			count++
		}
	}
	return count
}

// XDSClient is an xDS client that behaves as Envoy does. It subscribes to all clusters and, once these are warm, to all
// listeners. It subscribes to all scopes if a listener has scoped routes, and by name to the endpoints of the clusters.
// It ACKs each response, but delays the ACK of clusters until they are warm
// (https://www.envoyproxy.io/docs/envoy/v1.40.0/api-docs/xds_protocol#resource-warming). A changed cluster makes it
// request the cluster's endpoints again in state of the world, but not in delta. After a reconnect it sends the
// versions of its resources.
type XDSClient struct {
	tb   testing.TB
	mode XDSMode

	mu        sync.Mutex // guards what follows
	proxy     *xdsProxy
	reject    func(typeURL, name string) error
	stalled   bool
	streamErr error
	streams   int
	notify    chan struct{} // closed and replaced at each change

	cancel context.CancelFunc
	done   chan struct{}
}

// NewXDSClient connects a client over conn. The client disconnects when the test ends.
func NewXDSClient(tb testing.TB, conn grpc.ClientConnInterface, mode XDSMode) *XDSClient {
	tb.Helper()
	c := &XDSClient{tb: tb, mode: mode, proxy: newXDSProxy(mode), notify: make(chan struct{})}
	c.connect(conn)
	tb.Cleanup(c.Disconnect)
	return c
}

// Disconnect closes the stream. The accepted resources stay.
func (c *XDSClient) Disconnect() {
	c.cancel()
	<-c.done
}

// Reconnect closes the stream and opens another one over conn. The client sends the versions of its resources.
func (c *XDSClient) Reconnect(conn grpc.ClientConnInterface) {
	c.tb.Helper()
	c.Disconnect()
	c.connect(conn)
}

// Reject makes the client NACK every response with a new or changed resource for which reject returns an error. As in
// Envoy, the other resources of the response are accepted. A nil function accepts everything again. The client's
// goroutine calls reject.
func (c *XDSClient) Reject(reject func(typeURL, name string) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reject = reject
}

// Stall makes the client stop reading, as a stopped process does.
func (c *XDSClient) Stall() { c.setStalled(true) }

// Resume makes the client read again.
func (c *XDSClient) Resume() { c.setStalled(false) }

// State returns the present state.
func (c *XDSClient) State() XDSState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state()
}

// WaitFor waits until the state satisfies the condition and returns that state.
// After await.Patience the test fails with the last state.
func (c *XDSClient) WaitFor(condition func(XDSState) bool) XDSState {
	c.tb.Helper()
	deadline := time.NewTimer(await.Patience())
	defer deadline.Stop()
	for {
		c.mu.Lock()
		state, changed := c.state(), c.notify
		c.mu.Unlock()
		if condition(state) {
			return state
		}
		select {
		case <-changed:
		case <-deadline.C:
			c.tb.Fatalf("the xDS client did not reach the state within %s; it has\n%s", await.Patience(), state)
		}
	}
}

// String lists the names in the state and its last deliveries.
func (s XDSState) String() string {
	last := s.Deliveries[max(0, len(s.Deliveries)-10):]
	return fmt.Sprintf("clusters %q (warming %q)\nendpoints %q\nlisteners %q\nscopes %q\n"+
		"broken %q\nstreams %d, error %v\nlast deliveries %+v",
		slices.Sorted(maps.Keys(s.Clusters)), s.Warming, slices.Sorted(maps.Keys(s.Endpoints)),
		slices.Sorted(maps.Keys(s.Listeners)), slices.Sorted(maps.Keys(s.Scopes)), s.Broken, s.Streams, s.StreamError, last)
}

// state copies the state; the caller holds the lock.
func (c *XDSClient) state() XDSState {
	p := c.proxy
	state := XDSState{
		Mode:        c.mode,
		Clusters:    accepted[*clusterv3.Cluster](p, resourcev3.ClusterType),
		Endpoints:   accepted[*endpointv3.ClusterLoadAssignment](p, resourcev3.EndpointType),
		Listeners:   accepted[*listenerv3.Listener](p, resourcev3.ListenerType),
		Scopes:      accepted[*routev3.ScopedRouteConfiguration](p, resourcev3.ScopedRouteType),
		Versions:    map[string]map[string]string{},
		Warming:     slices.Sorted(maps.Keys(p.warming)),
		Broken:      slices.Clone(p.broken),
		Deliveries:  slices.Clone(p.deliveries),
		Streams:     c.streams,
		StreamError: c.streamErr,
	}
	for typeURL, held := range p.accepted {
		state.Versions[typeURL] = map[string]string{}
		for name, res := range held {
			state.Versions[typeURL][name] = res.version
		}
	}
	return state
}

// setStalled changes whether the client reads.
func (c *XDSClient) setStalled(stalled bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stalled = stalled
	c.changed()
}

// changed wakes all waiters; the caller holds the lock.
func (c *XDSClient) changed() {
	close(c.notify)
	c.notify = make(chan struct{})
}

// connect opens a stream and starts its goroutine.
func (c *XDSClient) connect(conn grpc.ClientConnInterface) {
	c.tb.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.tb.Context()))
	stream, err := openXDSStream(ctx, conn, c.mode)
	if err != nil {
		cancel()
		c.tb.Fatalf("open discovery stream: %v", err)
	}
	c.mu.Lock()
	c.streamErr = nil
	c.streams++
	initial := c.proxy.initialRequests()
	c.changed()
	c.mu.Unlock()
	done := make(chan struct{})
	c.cancel, c.done = cancel, done
	go func() {
		defer close(done)
		c.recordEnd(c.run(ctx, stream, initial))
	}()
}

// recordEnd records why the stream ended.
func (c *XDSClient) recordEnd(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streamErr = err
	c.changed()
}

// run reads responses and answers them until the stream ends.
func (c *XDSClient) run(ctx context.Context, stream xdsStream, requests []xdsRequest) error {
	node := &corev3.Node{Id: xdsNodeID, Cluster: "xds_cluster"}
	for {
		for _, r := range requests {
			if err := stream.send(node, r); err != nil {
				return reasonOf(err, stream)
			}
			node = nil // only the first request must carry it
		}
		if err := c.awaitReading(ctx); err != nil {
			return err
		}
		r, err := stream.receive()
		if err != nil {
			return err
		}
		c.mu.Lock()
		requests, err = c.proxy.handleResponse(r, c.reject)
		c.changed()
		c.mu.Unlock()
		if err != nil {
			return errors.Join(errors.New("a response that Envoy could not read"), err)
		}
	}
}

// reasonOf returns why a stream ended on which a request could not be sent: gRPC reports io.EOF for the request, and the
// status to the reader.
func reasonOf(err error, stream xdsStream) error {
	if !errors.Is(err, io.EOF) {
		return err
	}
	for { // Responses may precede the status.
		if _, err := stream.receive(); err != nil {
			return err
		}
	}
}

// awaitReading waits while the client is stalled.
func (c *XDSClient) awaitReading(ctx context.Context) error {
	for {
		c.mu.Lock()
		stalled, changed := c.stalled, c.notify
		c.mu.Unlock()
		if !stalled {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
