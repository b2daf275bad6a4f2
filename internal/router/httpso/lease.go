package httpso

import (
	"context"
	"log/slog"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/lease"
)

// leaseTimeout bounds a read of the Lease, which a call of the controller waits for.
const leaseTimeout = time.Second

// liveness is whether an interceptor keeps the reports up to date.
type liveness int

const (
	// livenessUnknown means that the Lease cannot be read at the moment.
	livenessUnknown liveness = iota
	// interceptorGone means that no interceptor renews the Lease, so status.dataPlane isn't kept up to date.
	interceptorGone
	// interceptorAlive means that an interceptor renews the Lease.
	interceptorAlive
)

// leaseMonitor decides from the interceptors' Lease whether an interceptor is alive. The controller's ServiceAccount
// has the permission to get Leases but not to watch them, so check reads the Lease if the last read is older than a
// renewal.
//
// Package lease has the rule. At the first read there is nothing to compare the Lease with, and it counts as fresh for
// LeaseFreshness. If its holder is gone, that delays a verification. The opposite assumption would verify a weight that
// no proxy has.
type leaseMonitor struct {
	client *kube.Client
	name   types.NamespacedName
	log    *slog.Logger

	mu          sync.Mutex
	readAt      time.Time // when the last attempt to read the Lease ended; zero before the first one
	failed      bool      // whether that attempt failed with a transient error
	holder      string    // the holder at the last successful read
	observation lease.Observation
	logged      liveness // the liveness that was logged last
}

func newLeaseMonitor(client *kube.Client, name types.NamespacedName, log *slog.Logger) *leaseMonitor {
	return &leaseMonitor{client: client, name: name, log: log, logged: interceptorAlive}
}

// check returns whether an interceptor is alive. It reads the Lease if a read is due.
func (m *leaseMonitor) check(ctx context.Context) liveness {
	m.mu.Lock()
	defer m.mu.Unlock()
	pause := httpv1alpha1.LeaseRenewInterval
	if m.failed {
		pause = leaseTimeout // Calls that waited for a failed read don't repeat it one after the other.
	}
	if m.readAt.IsZero() || time.Since(m.readAt) >= pause {
		m.read(ctx)
	}
	current := m.liveness()
	if current != m.logged && current != livenessUnknown {
		m.logged = current
		if current == interceptorGone {
			m.log.InfoContext(ctx, "no interceptor renews its Lease: weights are verified by the annotation alone",
				"lease", m.name.String())
		} else {
			m.log.InfoContext(ctx, "an interceptor renews its Lease: weights are verified by what the proxies "+
				"acknowledged", "lease", m.name.String(),
				"holder", m.holder)
		}
	}
	return current
}

// read reads the Lease. A Lease that is forbidden counts as a Lease that doesn't exist.
func (m *leaseMonitor) read(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	current := new(coordinationv1.Lease)
	err := m.client.Get(ctx, current, "apis", "coordination.k8s.io", "v1", "namespaces", m.name.Namespace, "leases",
		m.name.Name)
	if apierrors.IsForbidden(err) && m.logged != interceptorGone {
		m.log.WarnContext(ctx, "the interceptors' Lease cannot be read: permission denied", "lease", m.name.String(),
			"error", err.Error(),
			"fix", "allow the controller's ServiceAccount to get leases of coordination.k8s.io in that namespace")
	}
	m.readAt = time.Now()
	m.failed = err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err)
	if !m.failed {
		m.holder = lease.Holder(current)
		m.observation.Record(current, m.readAt)
	}
}

// liveness returns the result of the reads so far. A Lease without a holder counts like any other: a replica that shuts
// down releases the Lease, and usually another replica takes it within a moment.
func (m *leaseMonitor) liveness() liveness {
	switch {
	case m.observation.IsFresh(httpv1alpha1.LeaseFreshness, time.Now()):
		return interceptorAlive
	case m.failed:
		return livenessUnknown
	default:
		return interceptorGone
	}
}
