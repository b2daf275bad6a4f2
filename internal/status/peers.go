package status

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	discoveryv1 "k8s.io/api/discovery/v1"
)

const (
	// peerDeadline bounds one request to another replica, its wait included.
	peerDeadline = maxWait + 2*time.Second
	// peerPace is the shortest time between two requests to one replica.
	peerPace = 10 * time.Millisecond
	// peerRetryFirst and peerRetryLast bound the pause after a failed request; it doubles in between.
	peerRetryFirst = 100 * time.Millisecond
	peerRetryLast  = time.Second
	// maxAcks is the largest answer that is read, in bytes: 10,000 objects with names of 100 bytes take 2 MB, and each proxy that is behind on every other
	// one of them 60 kB more.
	maxAcks = 32 << 20
)

// errPeer says that a replica answered something else than its Acks.
var errPeer = errors.New("unusable answer")

// Replica is another replica of the interceptor.
type Replica struct {
	// Name is the name of its Pod.
	Name string
	// Address is where it serves AcksPath, host:port.
	Address string
}

// OtherReplicas returns the replicas that are behind the Service of endpointSlices, but for the one named self. It does not matter whether they are ready: one that
// starts or ends has proxies too.
func OtherReplicas(endpointSlices []*discoveryv1.EndpointSlice, self string) []Replica {
	found := map[string]Replica{}
	for _, slice := range endpointSlices {
		port := acksPort(slice)
		for _, endpoint := range slice.Endpoints {
			if port == "" || len(endpoint.Addresses) == 0 {
				continue
			}
			replica := Replica{endpoint.Addresses[0], net.JoinHostPort(endpoint.Addresses[0], port)}
			if endpoint.TargetRef != nil {
				replica.Name = endpoint.TargetRef.Name
			}
			// A dual-stack Service has each replica once per family.
			if other, known := found[replica.Name]; replica.Name != self && (!known || replica.Address < other.Address) {
				found[replica.Name] = replica
			}
		}
	}
	return sortedReplicas(maps.Values(found))
}

// acksPort returns the number of the port on which the replicas of a slice serve AcksPath, "" when they have none.
func acksPort(slice *discoveryv1.EndpointSlice) string {
	for _, port := range slice.Ports {
		if port.Name != nil && *port.Name == AcksPort && port.Port != nil && slice.AddressType != discoveryv1.AddressTypeFQDN {
			return strconv.Itoa(int(*port.Port))
		}
	}
	return ""
}

// sortedReplicas returns replicas in the order of their names.
func sortedReplicas(replicas iter.Seq[Replica]) []Replica {
	return slices.SortedFunc(replicas, func(a, b Replica) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Address, b.Address)) })
}

// peers reads the Acks of the other replicas while run runs.
type peers struct {
	client      *http.Client
	logger      *slog.Logger
	notify      func() // called after every change, with no lock held
	unreachable prometheus.Gauge

	mu      sync.Mutex
	wanted  []Replica
	news    chan struct{}     // holds one element when wanted has changed
	answers map[Replica]*Acks // nil for a replica that does not answer
	isNew   bool              // answers changed since they were last asked for
}

// newPeers returns peers without another replica.
func newPeers(logger *slog.Logger, unreachable prometheus.Gauge, notify func()) *peers {
	return &peers{
		client: &http.Client{
			Timeout:       peerDeadline,
			Transport:     &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		logger:      logger,
		notify:      notify,
		unreachable: unreachable,
		news:        make(chan struct{}, 1),
		answers:     map[Replica]*Acks{},
	}
}

// follow sets the replicas to read from.
func (p *peers) follow(replicas []Replica) {
	p.mu.Lock()
	same := slices.Equal(p.wanted, replicas)
	p.wanted = replicas
	p.mu.Unlock()
	if same {
		return
	}
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// acks returns what the replicas last answered, in the order of their names, and whether that is new since it was last called. Those that do not answer are
// left out.
func (p *peers) acks() (all []Acks, isNew bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	isNew, p.isNew = p.isNew, false
	for _, replica := range sortedReplicas(maps.Keys(p.answers)) {
		if answer := p.answers[replica]; answer != nil {
			all = append(all, *answer)
		}
	}
	return all, isNew
}

// run reads until ctx ends. Then it forgets everything.
func (p *peers) run(ctx context.Context) {
	var reading sync.WaitGroup
	stops := map[Replica]context.CancelFunc{}
	defer func() {
		for _, stop := range stops {
			stop()
		}
		reading.Wait()
		p.client.CloseIdleConnections()
	}()
	for {
		p.mu.Lock()
		wanted := p.wanted
		p.mu.Unlock()
		for replica, stop := range stops {
			if !slices.Contains(wanted, replica) {
				stop()
				delete(stops, replica)
			}
		}
		for _, replica := range wanted {
			if _, isRead := stops[replica]; !isRead {
				each, stop := context.WithCancel(ctx)
				stops[replica] = stop
				reading.Go(func() { p.read(each, replica) })
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-p.news:
		}
	}
}

// read keeps the answer of one replica up to date until ctx ends.
func (p *peers) read(ctx context.Context, replica Replica) {
	defer p.set(replica, nil, true)
	p.set(replica, nil, false)
	tag, retry, silent := "", peerRetryFirst, false
	for ctx.Err() == nil {
		acks, next, err := p.fetch(ctx, replica, tag)
		pause := peerPace
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if !silent {
				p.logger.WarnContext(ctx, "another replica does not tell what its proxies have taken; they count as having nothing",
					"replica", replica.Name, "address", replica.Address, "error", err)
			}
			silent, tag = true, ""
			p.set(replica, nil, false)
			pause, retry = retry, min(2*retry, peerRetryLast)
		default:
			if acks != nil {
				p.set(replica, acks, false)
			}
			tag, retry, silent = next, peerRetryFirst, false
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// set keeps an answer, nil for that there is none, or forgets the replica.
func (p *peers) set(replica Replica, acks *Acks, forget bool) {
	p.mu.Lock()
	p.isNew = true
	if forget {
		delete(p.answers, replica)
	} else {
		p.answers[replica] = acks
	}
	missing := 0
	for _, answer := range p.answers {
		if answer == nil {
			missing++
		}
	}
	p.mu.Unlock()
	p.unreachable.Set(float64(missing))
	p.notify()
}

// fetch asks a replica for its Acks. With the tag of the last answer it waits for others, and returns nil when there are none yet.
func (p *peers) fetch(ctx context.Context, replica Replica, tag string) (acks *Acks, next string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+replica.Address+AcksPath, http.NoBody)
	if err != nil {
		return nil, "", err
	}
	if tag != "" {
		request.Header.Set("If-None-Match", tag)
		request.Header.Set("Prefer", fmt.Sprintf("wait=%d", int(maxWait.Seconds())))
	}
	response, err := p.client.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = response.Body.Close() }()
	switch {
	case response.StatusCode == http.StatusNotModified && tag != "":
		return nil, tag, nil
	case response.StatusCode != http.StatusOK:
		return nil, "", fmt.Errorf("%w: GET %s is answered with %s", errPeer, request.URL, response.Status)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAcks+1))
	if err != nil {
		return nil, "", err
	}
	if len(body) > maxAcks {
		return nil, "", fmt.Errorf("%w: GET %s is answered with more than %d bytes", errPeer, request.URL, maxAcks)
	}
	acks = new(Acks)
	if err := json.Unmarshal(body, acks); err != nil {
		return nil, "", fmt.Errorf("%w: GET %s: %w", errPeer, request.URL, err)
	}
	return acks, response.Header.Get("Etag"), nil
}
