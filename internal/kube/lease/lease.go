// Package lease reads and writes the Lease (coordination.k8s.io/v1) by which replicas elect a leader, and decides
// whether its holder is alive.
//
// The fields and the rules are those of Kubernetes' own leader election (k8s.io/client-go/tools/leaderelection), so
// other programs can read the Lease.
package lease

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Uninstalled is the holder of a Lease whose replicas were uninstalled. No replica has that identity, and a replica that
// is installed again overwrites it. So a Lease that is merely not renewed, because its holder crashed, cannot be mistaken
// for that of uninstalled replicas.
const Uninstalled = "uninstalled"

// Holder returns the identity of the replica that holds a Lease, "" if no replica holds it.
func Holder(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// IsHeld reports whether a replica holds a Lease: it has a holder other than Uninstalled.
func IsHeld(lease *coordinationv1.Lease) bool { return Holder(lease) != "" && !IsUninstalled(lease) }

// IsUninstalled reports whether the replicas that elected a leader by a Lease were uninstalled.
func IsUninstalled(lease *coordinationv1.Lease) bool { return Holder(lease) == Uninstalled }

// Duration returns how long a Lease stays valid after a renewal, and fallback if the Lease doesn't contain a duration.
func Duration(lease *coordinationv1.Lease, fallback time.Duration) time.Duration {
	if lease.Spec.LeaseDurationSeconds == nil {
		return fallback
	}
	return time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
}

// Renewal identifies the last renewal of a Lease: two renewals differ in it. It is "" for a Lease that was never held.
func Renewal(lease *coordinationv1.Lease) string {
	if lease.Spec.RenewTime == nil {
		return Holder(lease)
	}
	return Holder(lease) + "@" + lease.Spec.RenewTime.UTC().Format(metav1.RFC3339Micro)
}

// Claim makes identity the holder of a Lease, renewed at now and valid for duration, in whole seconds. A new holder
// increments spec.leaseTransitions.
func Claim(lease *coordinationv1.Lease, identity string, duration time.Duration, now time.Time) {
	renewed := metav1.NewMicroTime(now)
	seconds := int32(duration / time.Second) //nolint:gosec // Leases last seconds, far below 68 years.
	if Holder(lease) != identity || lease.Spec.AcquireTime == nil {
		lease.Spec.AcquireTime = &renewed
		if transitions := lease.Spec.LeaseTransitions; transitions != nil {
			lease.Spec.LeaseTransitions = new(*transitions + 1)
		} else {
			lease.Spec.LeaseTransitions = new(int32)
		}
	}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &identity, &seconds, &renewed
}

// Release removes the holder of a Lease at now. Another replica can take the Lease at once.
func Release(lease *coordinationv1.Lease, now time.Time) {
	released := metav1.NewMicroTime(now)
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = new(""), new(int32(1)), &released
}

// Observation records when this process saw a Lease change. The clocks of two machines differ, so the age of a renewal
// is measured from that moment and never from the times in the Lease. The first reading counts as a change, because
// there is no earlier one to compare it with. The zero value has seen no Lease.
type Observation struct {
	renewal   string
	changedAt time.Time // zero before the first reading
}

// Record stores the renewal of a Lease that was read at now.
func (o *Observation) Record(lease *coordinationv1.Lease, now time.Time) {
	if renewal := Renewal(lease); renewal != o.renewal || o.changedAt.IsZero() {
		o.renewal, o.changedAt = renewal, now
	}
}

// IsFresh reports whether the Lease was seen to change less than duration before now. A Lease that was never held isn't
// fresh.
func (o *Observation) IsFresh(duration time.Duration, now time.Time) bool {
	return o.renewal != "" && now.Sub(o.changedAt) < duration
}
