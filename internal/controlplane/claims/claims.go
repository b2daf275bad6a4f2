// Package claims decides which fleet a proxy belongs to whose address is an endpoint of several fleets. Anyone who may
// write EndpointSlices in a namespace can claim any address. Only the kubelet writes the address of a Pod, so the Pods
// that the endpoints name decide.
package claims

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

const (
	// maxNames limits the Pods of one fleet that are read for an address. Usually it is one, or two while the address
	// moves to another Pod.
	maxNames = 4
	// readTimeout limits the reads for one address, and pause is the time between two addresses, so that any number of
	// claims costs the API server little.
	readTimeout, pause = 5 * time.Second, 20 * time.Millisecond
)

// Options are the settings of a Resolver. All are required.
type Options struct {
	// Pod reads a Pod.
	Pod func(ctx context.Context, key model.Key) (*corev1.Pod, error)
	// IsConnected reports whether a proxy with an address is connected.
	IsConnected func(address netip.Addr) bool
	// Assign receives the proxies of all fleets, without the addresses that belong to another fleet. Calls do not overlap.
	Assign func(proxies map[model.Fleet][]model.Proxy)
	// Logger logs addresses of several fleets.
	Logger *slog.Logger
}

// Resolver removes the claims of the fleets that an address does not belong to. An address belongs to the only fleet
// whose endpoint names a running Pod with that address. If there is none, or several, or the Pods cannot be read, all
// claims stay. Make it with New. It is safe for concurrent use.
type Resolver struct {
	options Options
	wake    chan struct{}
	logged  server.PeerLog

	assigning sync.Mutex // held during Options.Assign; acquired before mu

	mu      sync.Mutex // guards the fields below
	proxies map[model.Fleet][]model.Proxy
	claims  map[netip.Addr]map[model.Fleet][]string // the names of Pods, of addresses of several fleets
	owners  map[netip.Addr]owner
	queue   []netip.Addr // addresses to decide
	queued  map[netip.Addr]bool
}

// owner is the Pod that an address belongs to.
type owner struct {
	fleet model.Fleet
	pod   string
}

// New returns a Resolver without proxies.
func New(options Options) *Resolver {
	return &Resolver{
		options: options, wake: make(chan struct{}, 1), owners: map[netip.Addr]owner{}, queued: map[netip.Addr]bool{},
	}
}

// Assign sets the proxies of all fleets. The caller must not change them afterwards. A decision stays as long as the
// endpoint that it is based on.
func (r *Resolver) Assign(proxies map[model.Fleet][]model.Proxy) {
	claims := claimsOf(proxies)
	r.assigning.Lock()
	defer r.assigning.Unlock()
	r.mu.Lock()
	r.proxies, r.claims = proxies, claims
	maps.DeleteFunc(r.owners, func(address netip.Addr, o owner) bool {
		return !slices.Contains(claims[address][o.fleet], o.pod)
	})
	remaining := r.remaining()
	r.mu.Unlock()
	r.options.Assign(remaining)
	for address := range claims { // A stream may have begun before the address was that of several fleets.
		if r.options.IsConnected(address) {
			r.Connecting(address)
		}
	}
}

// Connecting is called when a proxy connects. If its address is that of several fleets, Run decides which one it belongs
// to. It does not wait.
func (r *Resolver) Connecting(address netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.claims[address] == nil || r.queued[address] {
		return
	}
	r.queue, r.queued[address] = append(r.queue, address), true
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run decides until ctx ends.
func (r *Resolver) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.wake:
		}
		for address, claims := r.next(); claims != nil; address, claims = r.next() {
			r.decide(ctx, address, claims)
			if !kube.Sleep(ctx, pause) {
				return nil
			}
		}
	}
}

// next removes the first address of the queue that is still one of several fleets. The claims are nil if there is none.
func (r *Resolver) next() (address netip.Addr, claims map[model.Fleet][]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for claims == nil && len(r.queue) > 0 {
		address, r.queue = r.queue[0], r.queue[1:]
		delete(r.queued, address)
		claims = r.claims[address]
	}
	return address, claims
}

// decide decides which fleet an address belongs to. After an error, the last decision stays.
func (r *Resolver) decide(ctx context.Context, address netip.Addr, claims map[model.Fleet][]string) {
	decided, err := r.ownerOf(ctx, address, claims)
	fleets := slices.Sorted(maps.Keys(claims))
	reason := fmt.Sprintf("it belongs to fleet %q: its Pod has the address", decided.fleet)
	switch {
	case apierrors.IsForbidden(err):
		reason = "the interceptor may not read Pods, so a proxy without a token is not served: bind ClusterRole " +
			"kedify-http-interceptor-pods, or find out who has created the EndpointSlices"
	case err != nil:
		reason = "the Pods were not read"
	case decided == owner{}:
		reason = "not exactly one Pod has the address, so a proxy without a token is not served"
	}
	r.options.Logger.Log(ctx, r.logged.Level(address, reason), "several fleets claim the address of a proxy",
		slog.String("address", address.String()), slog.Any("fleets", fleets), slog.String("reason", reason),
		slog.Any("error", err))
	if err == nil {
		r.apply(address, decided)
	}
}

// apply assigns the proxies again if a decision is new.
func (r *Resolver) apply(address netip.Addr, decided owner) {
	r.assigning.Lock()
	defer r.assigning.Unlock()
	r.mu.Lock()
	isKnown := decided == owner{} || slices.Contains(r.claims[address][decided.fleet], decided.pod)
	if r.owners[address] == decided || !isKnown {
		r.mu.Unlock()
		return
	}
	delete(r.owners, address)
	if (decided != owner{}) {
		r.owners[address] = decided
	}
	remaining := r.remaining()
	r.mu.Unlock()
	r.options.Assign(remaining)
}

// ownerOf returns the only running Pod with an address among those of claims, the zero value if there is none, or if
// Pods of several fleets have it.
func (r *Resolver) ownerOf(
	ctx context.Context, address netip.Addr, claims map[model.Fleet][]string,
) (found owner, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	for fleet, names := range claims {
		for _, name := range names[:min(len(names), maxNames)] {
			pod, err := r.options.Pod(ctx, model.Key{Namespace: string(fleet), Name: name})
			switch {
			case apierrors.IsNotFound(err):
				continue
			case err != nil:
				return owner{}, fmt.Errorf("read Pod %s/%s: %w", fleet, name, err)
			case !hasAddress(pod, address):
				continue
			case found != owner{} && found.fleet != fleet:
				return owner{}, nil
			}
			found = owner{fleet, name}
		}
	}
	return found, nil
}

// hasAddress reports whether a Pod has an address. One that has ended keeps the address in its status, although another
// Pod may get it.
func hasAddress(pod *corev1.Pod, address netip.Addr) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return false
	}
	return slices.ContainsFunc(append(pod.Status.PodIPs, corev1.PodIP{IP: pod.Status.PodIP}), func(ip corev1.PodIP) bool {
		parsed, err := netip.ParseAddr(ip.IP)
		return err == nil && parsed.Unmap() == address
	})
}

// remaining returns the proxies without the addresses that belong to another fleet. The caller holds mu.
func (r *Resolver) remaining() map[model.Fleet][]model.Proxy {
	remaining, affected := maps.Clone(r.proxies), map[model.Fleet]bool{}
	for address, owner := range r.owners {
		for fleet := range r.claims[address] {
			affected[fleet] = affected[fleet] || fleet != owner.fleet
		}
	}
	for fleet, isAffected := range affected {
		if isAffected {
			remaining[fleet] = r.without(fleet)
		}
	}
	return remaining
}

// without returns the proxies of a fleet without the addresses that belong to another one. The caller holds mu.
func (r *Resolver) without(fleet model.Fleet) []model.Proxy {
	proxies := slices.Clone(r.proxies[fleet])
	for i := range proxies {
		proxies[i].Addresses = slices.DeleteFunc(slices.Clone(proxies[i].Addresses), func(address netip.Addr) bool {
			owner, isDecided := r.owners[address]
			return isDecided && owner.fleet != fleet
		})
	}
	return proxies
}

// claimsOf returns the names of the proxies by address and fleet, of the addresses of several fleets.
func claimsOf(proxies map[model.Fleet][]model.Proxy) map[netip.Addr]map[model.Fleet][]string {
	first, claims := map[netip.Addr]model.Fleet{}, map[netip.Addr]map[model.Fleet][]string{}
	for fleet, at := range endpointsOf(proxies) {
		if other, isKnown := first[at.address]; isKnown && other != fleet {
			claims[at.address] = map[model.Fleet][]string{}
		} else {
			first[at.address] = fleet
		}
	}
	if len(claims) == 0 {
		return claims
	}
	for fleet, at := range endpointsOf(proxies) {
		if byFleet := claims[at.address]; byFleet != nil {
			byFleet[fleet] = append(byFleet[fleet], at.name)
		}
	}
	return claims
}

// endpoint is an address of a proxy.
type endpoint struct {
	name    string
	address netip.Addr
}

// endpointsOf returns all addresses of all proxies.
func endpointsOf(proxies map[model.Fleet][]model.Proxy) iter.Seq2[model.Fleet, endpoint] {
	return func(yield func(model.Fleet, endpoint) bool) {
		for fleet, members := range proxies {
			for _, proxy := range members {
				for _, address := range proxy.Addresses {
					if !yield(fleet, endpoint{proxy.Name, address}) {
						return
					}
				}
			}
		}
	}
}
