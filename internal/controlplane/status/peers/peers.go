package peers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status/peers/peerspb"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/endpoints"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

const (
	// retryFirst and retryLast bound the pause after a failed stream; it doubles in between.
	retryFirst = 100 * time.Millisecond
	retryLast  = time.Second
	// maxMessage is the largest Delta that is accepted, in bytes. 10,000 objects with names of 100 bytes take 1.3 MB,
	// and each proxy that has ACKed none of them another 30 kB.
	maxMessage = 32 << 20
	// pingInterval is the interval of keepalive pings, so that a connection to a lost node is not used for the next
	// stream. The server allows a ping every 5 s.
	pingInterval = 10 * time.Second
)

// errSilent means that a replica has sent nothing for livenessTimeout.
var errSilent = fmt.Errorf("no message for %v", livenessTimeout)

// Peers contains the States of the other replicas while Run runs. It is safe for concurrent use.
type Peers struct {
	logger      *slog.Logger
	notify      func(Delta)
	credentials credentials.TransportCredentials
	dialOptions []grpc.DialOption // additional ones, for tests

	mu      sync.Mutex
	wanted  []endpoints.Pod
	watched int                      // number of watched replicas
	states  map[endpoints.Pod]*State // of the reachable replicas
	changed chan struct{}            // receives one element when wanted changes
}

// NewPeers returns Peers without replicas. It logs unreachable replicas. notify is called with the changes of a
// replica; it may call Read. The credentials are those of the connections to replicas; nil means connections without
// TLS.
func NewPeers(logger *slog.Logger, security credentials.TransportCredentials, notify func(Delta)) *Peers {
	if security == nil {
		security = insecure.NewCredentials()
	}
	return &Peers{
		logger: logger, notify: notify, credentials: security,
		states: map[endpoints.Pod]*State{}, changed: make(chan struct{}, 1),
	}
}

// Follow sets the replicas to watch. The caller must not modify others afterwards.
func (p *Peers) Follow(others []endpoints.Pod) {
	p.mu.Lock()
	isSame := slices.Equal(p.wanted, others)
	p.wanted = others
	p.mu.Unlock()
	if isSame {
		return
	}
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// Read calls visit with the States of the reachable replicas. visit must not keep them.
func (p *Peers) Read(visit func([]*State)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	visit(slices.AppendSeq(make([]*State, 0, len(p.states)+1), maps.Values(p.states)))
}

// Unreachable returns the number of unreachable replicas.
func (p *Peers) Unreachable() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, p.watched-len(p.states)) // The State of a removed replica may still be present.
}

// Run watches the replicas until ctx ends, and then drops all States.
func (p *Peers) Run(ctx context.Context) {
	server.RunEach(ctx, func() []endpoints.Pod {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.watched = len(p.wanted)
		return p.wanted
	}, p.changed, p.keepWatching)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watched = 0
}

// keepWatching watches one replica until ctx ends.
func (p *Peers) keepWatching(ctx context.Context, replica endpoints.Pod) {
	logger := p.logger.With("replica", replica.Name, "address", replica.Address)
	conn, err := p.dial(replica.Address)
	if err != nil {
		logger.ErrorContext(ctx, "cannot connect to peer replica", "error", err)
		return
	}
	defer func() { _ = conn.Close() }()
	defer p.forget(replica)
	retry, isLogged := retryFirst, false
	for {
		p.forget(replica)
		start := time.Now()
		err := p.watch(ctx, replica, conn)
		if ctx.Err() != nil {
			return
		}
		if time.Since(start) > 2*livenessTimeout { // The stream worked in between.
			retry, isLogged = retryFirst, false
		}
		if !isLogged { // A starting replica does not serve before its first sync.
			logger.InfoContext(ctx,
				"peer replica unreachable; its proxies count as not synced",
				"error", err)
			isLogged = true
		}
		if status.Code(err) == codes.Unauthenticated { // The connection was opened before there was a certificate.
			conn = p.redial(conn, replica.Address)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(retry):
			retry = min(2*retry, retryLast)
		}
	}
}

// redial replaces a connection to a replica, which it keeps after an error.
func (p *Peers) redial(before *grpc.ClientConn, address string) *grpc.ClientConn {
	conn, err := p.dial(address)
	if err != nil {
		return before
	}
	_ = before.Close()
	return conn
}

// dial returns a connection to a replica.
func (p *Peers) dial(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+address, append([]grpc.DialOption{
		grpc.WithNoProxy(), // HTTPS_PROXY is for connections outside of the cluster.
		grpc.WithTransportCredentials(p.credentials),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingInterval, Timeout: livenessTimeout}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: retryFirst, Multiplier: 2, Jitter: 0.2, MaxDelay: retryLast,
			},
			MinConnectTimeout: livenessTimeout,
		}),
	}, p.dialOptions...)...)
}

// watch reads one stream until it fails or ctx ends.
func (p *Peers) watch(ctx context.Context, replica endpoints.Pod, conn *grpc.ClientConn) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	alarm := time.AfterFunc(livenessTimeout, func() { cancel(errSilent) })
	defer alarm.Stop()
	stream, err := peerspb.NewReplicasClient(conn).Watch(ctx, new(peerspb.WatchRequest))
	if err != nil {
		return err
	}
	codec, state := &decoder{objects: map[uint32]model.Key{}}, newState()
	for {
		message, err := stream.Recv()
		if errors.Is(context.Cause(ctx), errSilent) {
			return errSilent
		}
		if err != nil {
			return err
		}
		alarm.Reset(livenessTimeout)
		delta, err := codec.decode(message)
		if err != nil {
			return err
		}
		if err := p.apply(replica, state, delta); err != nil {
			return err
		}
	}
}

// apply applies a Delta of a replica. state is the result of the Deltas before on the same stream.
func (p *Peers) apply(replica endpoints.Pod, state *State, delta Delta) error {
	p.mu.Lock()
	changes := state.apply(delta)
	isTooMuch := state.entries() > maxEntries
	if !isTooMuch {
		p.states[replica] = state
	}
	p.mu.Unlock()
	if isTooMuch {
		return fmt.Errorf("%w: more than %d entries", errProtocol, maxEntries)
	}
	if !changes.IsEmpty() {
		p.notify(changes)
	}
	return nil
}

// forget drops the State of a replica.
func (p *Peers) forget(replica endpoints.Pod) {
	p.mu.Lock()
	state, wasReachable := p.states[replica]
	delete(p.states, replica)
	p.mu.Unlock()
	if wasReachable {
		p.notify(state.disconnected())
	}
}
