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
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status/peers/peerspb"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/endpoints"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

const (
	// retryFirst and retryLast bound the pause after a stream that failed; it doubles in between.
	retryFirst = 100 * time.Millisecond
	retryLast  = time.Second
	// maxMessage is the largest Delta that is read, in bytes. 10,000 objects with names of 100 bytes take
	// 1.3 MB, and each proxy that has none of them 30 kB more.
	maxMessage = 32 << 20
	// pingInterval is how often a connection is tried out, so that one to a node that is gone is not used
	// for the next stream. The server allows it every 5 s.
	pingInterval = 10 * time.Second
)

// errSilent says that a replica gave no sign of life.
var errSilent = fmt.Errorf("no sign of life for %v", livenessTimeout)

// Peers know the other replicas while Run runs. They are safe for concurrent use.
type Peers struct {
	logger      *slog.Logger
	notify      func(Delta)
	dialOptions []grpc.DialOption // further ones of connections, for tests

	mu      sync.Mutex
	wanted  []endpoints.Pod
	watched int                // how many replicas are
	states  map[endpoints.Pod]*State // of those that tell something
	changed chan struct{}      // holds one element when wanted has changed
}

// NewPeers returns Peers that watch nobody. logger is told of replicas that tell nothing. notify is
// called with what is new about one of the replicas; it may call Read.
func NewPeers(logger *slog.Logger, notify func(Delta)) *Peers {
	return &Peers{logger: logger, notify: notify, states: map[endpoints.Pod]*State{}, changed: make(chan struct{}, 1)}
}

// Follow sets the replicas to watch. Nobody may change others afterwards.
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

// Read shows the States of the replicas to see, which must not keep them. A replica that tells nothing
// is left out.
func (p *Peers) Read(see func([]*State)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	see(slices.AppendSeq(make([]*State, 0, len(p.states)+1), maps.Values(p.states)))
}

// Unreachable returns how many of the replicas tell nothing.
func (p *Peers) Unreachable() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, p.watched-len(p.states)) // One that is watched no more may not be forgotten yet.
}

// Run watches the replicas until ctx ends. Then it forgets everything.
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
	conn, err := dial(replica.Address, p.dialOptions)
	if err != nil {
		logger.ErrorContext(ctx, "cannot watch another replica", "error", err)
		return
	}
	defer func() { _ = conn.Close() }()
	defer p.forget(replica)
	retry, isLogged := retryFirst, false
	for {
		p.forget(replica)
		began := time.Now()
		err := p.watch(ctx, replica, conn)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > 2*livenessTimeout { // It told something meanwhile.
			retry, isLogged = retryFirst, false
		}
		if !isLogged { // One that starts has nothing to tell until it serves proxies.
			logger.InfoContext(ctx,
				"another replica does not tell what its proxies have taken; they count as having nothing",
				"error", err)
			isLogged = true
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(retry):
			retry = min(2*retry, retryLast)
		}
	}
}

// dial prepares the connection to a replica.
func dial(address string, more []grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+address, append([]grpc.DialOption{
		grpc.WithNoProxy(), // HTTPS_PROXY is for the world outside of the cluster.
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingInterval, Timeout: livenessTimeout}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: retryFirst, Multiplier: 2, Jitter: 0.2, MaxDelay: retryLast,
			},
			MinConnectTimeout: livenessTimeout,
		}),
	}, more...)...)
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

// apply takes note of what a replica tells. state is what it told before on the same stream.
func (p *Peers) apply(replica endpoints.Pod, state *State, delta Delta) error {
	p.mu.Lock()
	news := state.apply(delta)
	isTooMuch := state.entries() > maxEntries
	if !isTooMuch {
		p.states[replica] = state
	}
	p.mu.Unlock()
	if isTooMuch {
		return fmt.Errorf("%w: more than %d objects and unconfirmed objects of proxies", errProtocol, maxEntries)
	}
	if !news.IsEmpty() {
		p.notify(news)
	}
	return nil
}

// forget has a replica count as one that tells nothing.
func (p *Peers) forget(replica endpoints.Pod) {
	p.mu.Lock()
	state, told := p.states[replica]
	delete(p.states, replica)
	p.mu.Unlock()
	if told {
		p.notify(state.disconnected())
	}
}
