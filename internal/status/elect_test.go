package status_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/status"
)

// candidate is a replica that takes part in an election.
type candidate struct {
	leads atomic.Bool
	stop  func()
}

// campaign starts a candidate.
func campaign(t *testing.T, leases *fake.Clientset, identity string) *candidate {
	t.Helper()
	c := &candidate{}
	election := status.Election{Leases: leases.CoordinationV1(), Namespace: "keda", Identity: identity, Logger: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- election.Run(ctx, func(ctx context.Context) {
			c.leads.Store(true)
			<-ctx.Done()
			c.leads.Store(false)
		})
	}()
	c.stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("%s: Run = %v", identity, err)
		}
	}
	return c
}

// withVersions has leases refuse an update of what was updated meanwhile, as an API server does.
func withVersions(leases *fake.Clientset) {
	var (
		mu      sync.Mutex
		version string
	)
	leases.PrependReactor("update", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		update, isUpdate := action.(clienttesting.UpdateAction)
		if !isUpdate {
			return false, nil, nil
		}
		lease, isLease := update.GetObject().DeepCopyObject().(*coordinationv1.Lease)
		if !isLease || lease.ResourceVersion != version {
			return true, nil, apierrors.NewConflict(action.GetResource().GroupResource(), httpv1alpha1.DefaultInterceptorLease, errors.New("updated meanwhile"))
		}
		version += "i"
		lease.ResourceVersion = version
		return true, lease, leases.Tracker().Update(action.GetResource(), lease, lease.Namespace)
	})
}

func TestElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := fake.NewClientset()
		withVersions(leases)
		var away atomic.Bool
		leases.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return away.Load(), nil, errors.New("the API server is away")
		})
		first := campaign(t, leases, "interceptor-0")
		time.Sleep(time.Second) // The clock is synctest's, here and below.
		second := campaign(t, leases, "interceptor-1")
		defer second.stop()
		steps := []struct {
			name          string
			do            func()
			after         time.Duration
			first, second bool
		}{
			{"the first one leads", func() {}, time.Minute, true, false},
			{"whoever cannot renew stops", func() { away.Store(true) }, 20 * time.Second, false, false},
			{"and somebody leads again", func() { away.Store(false) }, time.Minute, true, false},
			{"an orderly end makes place at once", first.stop, 15 * time.Second, false, true},
		}
		for i, step := range steps {
			step.do()
			time.Sleep(step.after)
			isFirst, isSecond := first.leads.Load(), second.leads.Load()
			if i == 2 { // Either may win.
				isFirst, isSecond = isFirst != isSecond, false
			}
			if isFirst != step.first || isSecond != step.second {
				t.Errorf("%s: the first leads: %v, the second: %v", step.name, isFirst, isSecond)
			}
		}
		renewed := func() time.Time {
			lease, err := leases.CoordinationV1().Leases("keda").Get(t.Context(), httpv1alpha1.DefaultInterceptorLease, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return lease.Spec.RenewTime.Time
		}
		before := renewed()
		time.Sleep(11 * time.Second)
		if beats := renewed().Sub(before); beats < 5*time.Second || beats > 16*time.Second {
			t.Errorf("the Lease was renewed by %v in 11 s, want about every 5 s", beats)
		}
	})
}

func TestElectionWithoutIdentity(t *testing.T) {
	err := status.Election{Namespace: "keda", Logger: slog.New(slog.DiscardHandler)}.Run(t.Context(), func(context.Context) {})
	if err == nil {
		t.Error("an election without an identity runs")
	}
}
