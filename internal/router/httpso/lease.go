package httpso

import (
	"context"
	"fmt"
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
	// livenessUnknown means that the Lease cannot be read.
	livenessUnknown liveness = iota
	// interceptorAlive means that an interceptor renews the Lease.
	interceptorAlive
	// interceptorSilent means that an interceptor held the Lease and no longer renews it: it crashed, restarts, or cannot
	// reach the API server. Proxies keep the configuration that they have.
	interceptorSilent
	// interceptorAbsent means that there is no Lease, and that this process has never seen one: nothing shows that an
	// interceptor was ever installed.
	interceptorAbsent
	// interceptorUninstalled means that the Lease is marked: lease.Uninstalled.
	interceptorUninstalled
)

// leaseMonitor decides from the interceptors' Lease whether an interceptor is alive. The controller's ServiceAccount
// has the permission to get Leases but not to watch them, so check reads the Lease if the last read is older than a
// renewal.
//
// Package lease has the rule. At the first read there is nothing to compare the Lease with, and it counts as fresh for
// LeaseFreshness.
type leaseMonitor struct {
	client *kube.Client
	name   types.NamespacedName
	log    *slog.Logger

	mu            sync.Mutex
	readAt        time.Time // when the last attempt to read the Lease ended; zero before the first one
	err           error     // of that attempt; nil if the Lease does not exist
	exists        bool      // whether the Lease existed at the last successful read
	holder        string    // its holder then
	observation   lease.Observation
	wasHeld       bool     // whether a replica has held the Lease, unless all were uninstalled since
	isUninstalled bool     // whether the Lease is marked as that of uninstalled interceptors
	current       liveness // the result of the last check
	logged        liveness // the liveness that was logged last
}

func newLeaseMonitor(client *kube.Client, name types.NamespacedName, log *slog.Logger) *leaseMonitor {
	return &leaseMonitor{client: client, name: name, log: log, logged: interceptorAlive}
}

// check returns whether an interceptor is alive. It reads the Lease if a read is due.
func (m *leaseMonitor) check(ctx context.Context) liveness {
	m.mu.Lock()
	defer m.mu.Unlock()
	pause := httpv1alpha1.LeaseRenewInterval
	if m.err != nil && !apierrors.IsForbidden(m.err) {
		pause = leaseTimeout // Calls that waited for a failed read don't repeat it one after the other.
	}
	if m.readAt.IsZero() || time.Since(m.readAt) >= pause {
		m.read(ctx)
	}
	m.current = m.liveness()
	m.logChange(ctx)
	return m.current
}

// last returns the result of the last check.
func (m *leaseMonitor) last() liveness {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.current
}

// read reads the Lease.
func (m *leaseMonitor) read(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	current := new(coordinationv1.Lease)
	err := m.client.Get(ctx, current, "apis", "coordination.k8s.io", "v1", "namespaces", m.name.Namespace, "leases",
		m.name.Name)
	if apierrors.IsForbidden(err) && !apierrors.IsForbidden(m.err) {
		m.log.WarnContext(ctx, "the interceptors' Lease cannot be read: permission denied", "lease", m.name.String(),
			"error", err.Error(), "fix", leasePermission)
	}
	m.readAt, m.err = time.Now(), err
	switch {
	case apierrors.IsNotFound(err):
		m.err, current = nil, new(coordinationv1.Lease)
	case err != nil:
		return
	}
	m.exists = err == nil
	m.holder, m.isUninstalled = lease.Holder(current), lease.IsUninstalled(current)
	m.observation.Record(current, m.readAt)
	m.wasHeld = !m.isUninstalled && (m.wasHeld || lease.Renewal(current) != "")
}

// liveness returns the result of the reads so far. A Lease without a holder counts like any other: a replica that shuts
// down releases the Lease, and usually another replica takes it within a moment.
func (m *leaseMonitor) liveness() liveness {
	switch {
	case m.isUninstalled && m.err == nil:
		return interceptorUninstalled
	case m.observation.IsFresh(httpv1alpha1.LeaseFreshness, time.Now()):
		return interceptorAlive
	case m.err != nil:
		return livenessUnknown
	case m.wasHeld:
		return interceptorSilent
	default:
		return interceptorAbsent
	}
}

// logChange logs how weights are verified, if that has changed.
func (m *leaseMonitor) logChange(ctx context.Context) {
	if m.current == m.logged || m.current == livenessUnknown {
		return
	}
	m.logged = m.current
	switch m.current {
	case interceptorAlive:
		m.log.InfoContext(ctx, "an interceptor renews its Lease: weights are verified by what the proxies acknowledged",
			"lease", m.name.String(), "holder", m.holder)
	case interceptorSilent:
		m.log.WarnContext(ctx, "no interceptor renews its Lease: new weights are not verified until an interceptor runs",
			"lease", m.name.String(), "holder", m.holder)
	case interceptorUninstalled:
		m.log.InfoContext(ctx, "the interceptors were uninstalled: weights are verified by the annotation alone",
			"lease", m.name.String())
	default:
		m.log.InfoContext(ctx, "there is no interceptor: weights are verified by the annotation alone, except those of "+
			"objects on which an interceptor has reported", "lease", m.name.String())
	}
}

// leasePermission is the fix for a Lease that may not be read.
const leasePermission = "allow the controller's ServiceAccount to get leases of coordination.k8s.io in that namespace"

// describe returns why reports are not up to date, and what to do, for a liveness other than interceptorAlive.
func (m *leaseMonitor) describe() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	optOut := fmt.Sprintf("write %s: false in %s", verifyKey, configField)
	switch {
	case apierrors.IsForbidden(m.err):
		return fmt.Sprintf("the interceptors' Lease %q cannot be read: permission denied: %s, or %s", m.name,
			leasePermission, optOut)
	case m.err != nil:
		return fmt.Sprintf("the interceptors' Lease %q cannot be read: %v", m.name, m.err)
	case !m.exists:
		return fmt.Sprintf("the interceptors' Lease %q does not exist: start an interceptor, until then the proxies keep "+
			"their weights; without interceptors, %s", m.name, optOut)
	}
	return fmt.Sprintf("no interceptor renews its Lease %q: start an interceptor, until then the proxies keep their "+
		"weights; after an uninstall, run kubectl -n %s patch lease %s --type=merge --patch "+
		`'{"spec":{"holderIdentity":%q}}', or %s`, m.name, m.name.Namespace, m.name.Name, lease.Uninstalled, optOut)
}
