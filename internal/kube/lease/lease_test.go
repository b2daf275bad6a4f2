package lease_test

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/kube/lease"
)

const freshness = 15 * time.Second

func TestClaimAndRelease(t *testing.T) {
	t.Parallel()
	held, now := new(coordinationv1.Lease), time.Unix(1e9, 0)
	for i, step := range []struct {
		identity    string
		transitions int32
		acquired    time.Duration
	}{
		{"a", 0, 0},
		{"a", 0, 0},
		{"b", 1, 2 * time.Second},
	} {
		at := now.Add(time.Duration(i) * time.Second)
		lease.Claim(held, step.identity, freshness, at)
		if got := lease.Holder(held); got != step.identity || !held.Spec.RenewTime.Time.Equal(at) {
			t.Errorf("step %d: holder %q, renewed at %v; want %q at %v", i, got, held.Spec.RenewTime, step.identity, at)
		}
		if got := *held.Spec.LeaseTransitions; got != step.transitions ||
			!held.Spec.AcquireTime.Time.Equal(now.Add(step.acquired)) {
			t.Errorf("step %d: %d transitions, acquired at %v; want %d, %v later than the start", i, got,
				held.Spec.AcquireTime, step.transitions, step.acquired)
		}
		if got := lease.Duration(held, time.Hour); got != freshness {
			t.Errorf("step %d: duration %v, want %v", i, got, freshness)
		}
	}
	lease.Release(held, now.Add(time.Minute))
	if got := lease.Holder(held); got != "" || lease.Duration(held, time.Hour) != time.Second {
		t.Errorf("released: holder %q, duration %v; want none and 1s", got, lease.Duration(held, time.Hour))
	}
}

func TestUninstalledUntilClaimed(t *testing.T) {
	t.Parallel()
	held := new(coordinationv1.Lease)
	check := func(step string, isHeld, isUninstalled bool) {
		t.Helper()
		if lease.IsHeld(held) != isHeld || lease.IsUninstalled(held) != isUninstalled {
			t.Errorf("%s: held %v, uninstalled %v; want %v, %v", step, lease.IsHeld(held), lease.IsUninstalled(held), isHeld,
				isUninstalled)
		}
	}
	check("new", false, false)
	lease.Claim(held, "a", freshness, time.Unix(1e9, 0))
	check("claimed", true, false)
	lease.Release(held, time.Unix(2e9, 0))
	check("released", false, false)
	held.Spec.HolderIdentity = new(lease.Uninstalled)
	check("uninstalled", false, true)
	lease.Claim(held, "a", freshness, time.Unix(3e9, 0))
	check("installed again", true, false)
}

func TestObservation(t *testing.T) {
	t.Parallel()
	var seen lease.Observation
	now, held := time.Unix(1e9, 0), new(coordinationv1.Lease)
	check := func(step string, after time.Duration, want bool) {
		t.Helper()
		if got := seen.IsFresh(freshness, now.Add(after)); got != want {
			t.Errorf("%s: fresh after %v: %v, want %v", step, after, got, want)
		}
	}
	check("nothing read", 0, false)
	seen.Record(held, now)
	check("never held", 0, false)
	// The times in a Lease do not matter, only when they change.
	lease.Claim(held, "a", freshness, now.Add(-time.Hour))
	seen.Record(held, now)
	seen.Record(held, now.Add(10*time.Second))
	check("claimed", freshness-1, true)
	check("not renewed", freshness, false)
	lease.Claim(held, "a", freshness, now.Add(time.Hour))
	seen.Record(held, now.Add(freshness))
	check("renewed", 2*freshness-1, true)
	check("not renewed again", 2*freshness, false)
	held.Labels = map[string]string{"a": "b"}
	seen.Record(held, now.Add(2*freshness))
	check("labeled", 2*freshness, false)
}
