package httpso

import (
	"context"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// leaseTimeout bounds the reading of the Lease, which happens while a call waits.
const leaseTimeout = time.Second

// life is what is known of the interceptors.
type life int

const (
	// unknown says that the Lease cannot be read now.
	unknown life = iota
	// absent says that no interceptor renews the Lease, so that nobody keeps status.dataPlane up to date.
	absent
	// alive says that an interceptor renews the Lease.
	alive
)

// lease is the part of a Lease (coordination.k8s.io/v1) that shows life.
type lease struct {
	Spec struct {
		HolderIdentity string `json:"holderIdentity"`
		RenewTime      string `json:"renewTime"`
	} `json:"spec"`
}

// pulse follows the Lease of the interceptors. The controller's ServiceAccount may get Leases but not watch them, so it is read when somebody asks and the
// last reading is older than a renewal.
//
// Clocks of machines differ, so renewTime is never compared with one of ours: a Lease lives while we see it change, as client-go's leader election
// has it. At first sight there is nothing to compare with and it counts as alive for LeaseFreshness: where the holder is in fact gone, that delays a
// verification, where the opposite guess would let one through that nobody took.
type pulse struct {
	client *kube.Client
	name   types.NamespacedName
	log    *slog.Logger

	mu      sync.Mutex
	tried   time.Time // when the last attempt to read the Lease ended; zero while there was none
	failed  bool      // whether that attempt failed for now
	seen    lease     // what was read last; the zero value where there is no Lease
	changed time.Time // when that was found changed; zero while nothing was read
	told    life      // what was logged last
}

func newPulse(client *kube.Client, name types.NamespacedName, log *slog.Logger) *pulse {
	return &pulse{client: client, name: name, log: log, told: alive}
}

// feel tells whether interceptors live, reading the Lease if that is due.
func (p *pulse) feel(ctx context.Context) life {
	p.mu.Lock()
	defer p.mu.Unlock()
	pause := httpv1alpha1.LeaseRenewInterval
	if p.failed {
		pause = leaseTimeout // those who waited for an attempt that failed don't each make one more
	}
	if p.tried.IsZero() || time.Since(p.tried) >= pause {
		p.read(ctx)
	}
	found := p.judge()
	if found != p.told && found != unknown {
		p.told = found
		if found == absent {
			p.log.InfoContext(ctx, "no interceptor renews its Lease: weights are verified by the annotation alone", "lease", p.name.String())
		} else {
			p.log.InfoContext(ctx, "an interceptor renews its Lease: weights are verified by what the proxies took", "lease", p.name.String(),
				"holder", p.seen.Spec.HolderIdentity)
		}
	}
	return found
}

// read reads the Lease. One that may not be read is as good as none.
func (p *pulse) read(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	var found lease
	err := p.client.Get(ctx, &found, "apis", "coordination.k8s.io", "v1", "namespaces", p.name.Namespace, "leases", p.name.Name)
	if apierrors.IsForbidden(err) && p.told != absent {
		p.log.WarnContext(ctx, "the interceptors' Lease may not be read", "lease", p.name.String(), "error", err.Error(),
			"remedy", "allow the controller's ServiceAccount to get leases of coordination.k8s.io there")
	}
	p.tried = time.Now()
	p.failed = err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err)
	if !p.failed && (found != p.seen || p.changed.IsZero()) {
		p.seen, p.changed = found, p.tried
	}
}

// judge says what the readings so far show. A Lease without a holder counts like any other: whoever
// ends in good order gives the Lease up, and mostly another replica takes it within a moment.
func (p *pulse) judge() life {
	isRenewed := p.seen.Spec.HolderIdentity != "" || p.seen.Spec.RenewTime != ""
	switch {
	case isRenewed && time.Since(p.changed) < httpv1alpha1.LeaseFreshness:
		return alive
	case p.failed:
		return unknown
	default:
		return absent
	}
}
