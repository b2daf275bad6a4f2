package status

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// renewDeadline is how long the elected replica tries to renew the Lease before it stops to write: less than the time after which another one takes it.
const renewDeadline = 10 * time.Second

// Election chooses one of several replicas by the Lease httpv1alpha1.DefaultInterceptorLease. It is renewed every httpv1alpha1.LeaseRenewInterval, which makes
// it the sign of life of whoever writes. A replica that was killed is replaced after httpv1alpha1.LeaseFreshness, one that stops in order at once.
type Election struct {
	// Leases is the client for the Lease. It needs the permissions to get, create and update it.
	Leases coordinationv1client.LeasesGetter
	// Namespace is the namespace of the Lease.
	Namespace string
	// Identity names this replica among the others, such as by its pod's name.
	Identity string
	// Logger is told who is elected.
	Logger *slog.Logger
}

// Run takes part in elections until ctx ends. While this replica is elected, lead runs; its context ends when the Lease is lost, and Run waits for it
// before it takes part again. An error is a mistake in the configuration: an API server that does not answer is waited for.
func (e Election) Run(ctx context.Context, lead func(ctx context.Context)) error {
	for ctx.Err() == nil {
		if err := e.term(ctx, lead); err != nil {
			return err
		}
	}
	return nil
}

// term takes part until this replica was elected and has lost the Lease again, or until ctx ends.
func (e Election) term(ctx context.Context, lead func(ctx context.Context)) error {
	var (
		mu   sync.Mutex // held while lead runs
		over bool
	)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: httpv1alpha1.DefaultInterceptorLease,
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: e.Namespace, Name: httpv1alpha1.DefaultInterceptorLease},
			Client:     e.Leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: e.Identity},
		},
		LeaseDuration:   httpv1alpha1.LeaseFreshness,
		RenewDeadline:   renewDeadline,
		RetryPeriod:     httpv1alpha1.LeaseRenewInterval,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			// client-go calls this in a goroutine for which it does not wait.
			OnStartedLeading: func(ctx context.Context) {
				mu.Lock()
				defer mu.Unlock()
				if !over {
					e.Logger.InfoContext(ctx, "elected to write statuses", "identity", e.Identity)
					lead(ctx)
				}
			},
			OnStoppedLeading: func() {},
			OnNewLeader: func(identity string) {
				if identity != e.Identity {
					e.Logger.InfoContext(ctx, "another replica writes statuses", "identity", identity)
				}
			},
		},
	})
	if err != nil {
		return fmt.Errorf("election by Lease %s/%s: %w", e.Namespace, httpv1alpha1.DefaultInterceptorLease, err)
	}
	elector.Run(ctx)
	mu.Lock()
	defer mu.Unlock()
	over = true
	return nil
}
