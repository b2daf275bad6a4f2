package status_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
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

// storedLeases are status.Leases in a fake API server.
type storedLeases struct{ *fake.Clientset }

// Get is status.Leases'.
func (s storedLeases) Get(ctx context.Context, namespace, name string) (*coordinationv1.Lease, error) {
	return s.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
}

// Create is status.Leases'.
func (s storedLeases) Create(ctx context.Context, lease *coordinationv1.Lease) error {
	_, err := s.CoordinationV1().Leases(lease.Namespace).Create(ctx, lease, metav1.CreateOptions{})
	return err
}

// Update is status.Leases'. Each version has another number, which the fake does not see to.
func (s storedLeases) Update(ctx context.Context, lease *coordinationv1.Lease) error {
	lease = lease.DeepCopy()
	lease.ResourceVersion = lease.Spec.RenewTime.String()
	_, err := s.CoordinationV1().Leases(lease.Namespace).Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

// Released is status.Leases'.
func (s storedLeases) Released(ctx context.Context, namespace, name, _ string) error {
	watching, err := s.CoordinationV1().Leases(namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		return err
	}
	defer watching.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case event := <-watching.ResultChan():
			if lease, is := event.Object.(*coordinationv1.Lease); is && *lease.Spec.HolderIdentity == "" {
				return nil
			}
		}
	}
}

// campaign starts a candidate. leaders counts those who lead.
func campaign(t *testing.T, leases *fake.Clientset, leaders *atomic.Int32, identity string) *candidate {
	t.Helper()
	c := &candidate{}
	election := status.Election{Leases: storedLeases{leases}, Namespace: "keda", Identity: identity, Logger: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- election.Run(ctx, func(ctx context.Context) {
			if leaders.Add(1) > 1 {
				t.Errorf("%s leads beside another", identity)
			}
			c.leads.Store(true)
			<-ctx.Done()
			c.leads.Store(false)
			leaders.Add(-1)
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

func TestElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := fake.NewClientset()
		var leaders atomic.Int32
		var cut atomic.Bool // the first candidate's way to the API server
		leases.PrependReactor("update", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
			lease, ok := action.(clienttesting.UpdateAction).GetObject().(*coordinationv1.Lease)
			return ok && cut.Load() && *lease.Spec.HolderIdentity == "interceptor-0", nil, errors.New("the API server is away")
		})
		first := campaign(t, leases, &leaders, "interceptor-0")
		defer first.stop()
		time.Sleep(time.Second) // The clock is synctest's, here and below.
		second := campaign(t, leases, &leaders, "interceptor-1")
		for _, step := range []struct {
			name          string
			do            func()
			after         time.Duration
			first, second bool
		}{
			{"the first one leads", func() {}, time.Minute, true, false},
			{"whoever cannot renew makes place", func() { cut.Store(true) }, time.Minute, false, true},
			{"who returns waits", func() { cut.Store(false) }, time.Minute, false, true},
			{"an orderly end makes place at once", second.stop, 100 * time.Millisecond, true, false},
		} {
			step.do()
			time.Sleep(step.after)
			if first.leads.Load() != step.first || second.leads.Load() != step.second {
				t.Errorf("%s: the first leads: %v, the second: %v", step.name, first.leads.Load(), second.leads.Load())
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
		if beats := renewed().Sub(before); beats < 5*time.Second || beats > 15*time.Second {
			t.Errorf("the Lease was renewed by %v in 11 s, want about every 5 s", beats)
		}
	})
}

// TestASlowAnswerShortensTheTerm has the API server take its time to answer the request by which a
// replica is elected, and refuse all that follow: others count from when the Lease was written.
func TestASlowAnswerShortensTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow = 8 * time.Second // The clock is synctest's, here and below.
		leases := fake.NewClientset()
		leases.PrependReactor("create", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			time.Sleep(slow)
			return false, nil, nil
		})
		leases.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("the API server is away")
		})
		var leaders atomic.Int32
		one := campaign(t, leases, &leaders, "interceptor-0")
		defer one.stop()
		time.Sleep(slow + time.Second)
		if !one.leads.Load() {
			t.Error("whoever has the Lease does not lead")
		}
		time.Sleep(10*time.Second - slow)
		if one.leads.Load() {
			t.Error("11 s after its request, and without another one, the replica still leads")
		}
	})
}

func TestElectionWithoutIdentity(t *testing.T) {
	err := status.Election{Namespace: "keda", Logger: slog.New(slog.DiscardHandler)}.Run(t.Context(), func(context.Context) {})
	if err == nil {
		t.Error("an election without an identity runs")
	}
}
