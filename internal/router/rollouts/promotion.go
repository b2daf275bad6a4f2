package rollouts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/router"
	"github.com/kedify/argo-rollouts-plugin/internal/router/reasons"
)

const (
	// firstCallTimeout is how long the first call of a promotion waits for the stable Service. Each call blocks one of the
	// controller's 10 workers, so later calls check once.
	firstCallTimeout = 2 * time.Second
	// eventAfter is how long a promotion waits before the Rollout gets an Event: the controller emits none for an error of
	// UpdateHash.
	eventAfter = 10 * time.Second
	// promotionTimeout is how long a promotion waits in total, over several calls, before the weights change whatever Pods
	// the stable Service has.
	promotionTimeout = 30 * time.Second
	// minPollInterval and maxPollInterval bound the time between two checks of the Endpoints, which doubles after each.
	minPollInterval, maxPollInterval = 20 * time.Millisecond, 200 * time.Millisecond
)

// SafePromotionKey is the key of a router's configuration in a Rollout that decides whether promotions wait. Default
// true.
const SafePromotionKey = "safePromotion"

// errNotPromoted means that the stable Service does not have the promoted Pods yet.
var errNotPromoted = errors.New("its ready endpoints are not yet the promoted Pods")

// IsPromotion reports whether an UpdateHash with these hashes is the one at the end of a canary, when the stable
// Service gets the Pods of the canary. It is false for aborted Rollouts, those scaled to zero, and a rollback during a
// canary, after which the stable Service keeps its Pods.
func IsPromotion(rollout *v1alpha1.Rollout, canaryHash, stableHash string) bool {
	// gob turns a pointer to 0 into nil; the controller itself defaults nil to 1.
	noReplicas := rollout.Spec.Replicas == nil || *rollout.Spec.Replicas == 0
	previous := rollout.Status.Canary.Weights
	isRollback := previous != nil && previous.Stable.PodTemplateHash == stableHash
	return canaryHash == stableHash && stableHash != "" && !rollout.Status.Abort && !noReplicas && !isRollback
}

// Promotion is one promotion of a canary.
type Promotion struct {
	// Rollout is the Rollout that is promoted.
	Rollout *v1alpha1.Rollout
	// Stable and Canary are the names of its Services.
	Stable, Canary string
	// Hash is the pod template hash of the promoted Pods.
	Hash string
	// ConfigField is the router's configuration in the Rollout, for messages.
	ConfigField string
	// StableHasHash reports whether the stable Service has only Pods of a hash, for routers with a better source than
	// Endpoints; known is false if it cannot be determined. May be nil.
	StableHasHash func(ctx context.Context, hash string) (matches, known bool, err error)
	// Changed returns a channel that is closed when the result of StableHasHash may have changed. May be nil.
	Changed func() <-chan struct{}
}

// key identifies a promotion across calls.
func (p Promotion) key() string {
	return string(p.Rollout.UID) + " " + router.NameOf(p.Rollout) + " " + p.Hash
}

// PromotionGate delays promotions until the stable Service has the promoted Pods.
type PromotionGate struct {
	client *kube.Client
	events *EventRecorder
	waits  *kube.Waits
}

// NewPromotionGate returns a PromotionGate that reads Endpoints through client and emits Warning Events through events.
func NewPromotionGate(client *kube.Client, events *EventRecorder) *PromotionGate {
	return &PromotionGate{client: client, events: events, waits: kube.NewWaits()}
}

// Finish ends a promotion without waiting: the canary has no traffic.
func (g *PromotionGate) Finish(p Promotion) { g.waits.End(p.key()) }

// Wait returns nil when the stable Service has only the promoted Pods, and an error if that takes longer than
// firstCallTimeout. After an error of UpdateHash the controller changes no weight, scale or status and reconciles
// again, after 1 ms at first and 10 s at most (v1.10.1 rollout/canary.go, rolloutCanary; utils/queue). Those calls
// check once and fail immediately. After promotionTimeout the promotion continues, with a Warning Event. It also
// continues if neither Service has a ready address: there is no traffic to lose.
//
// The controller handles a change of spec.replicas without calling a router, so the promotion is not delayed then. With
// dynamicStableScale, which has scaled down the old Pods by then, there is a Warning Event about that.
func (g *PromotionGate) Wait(ctx context.Context, p Promotion) error {
	if p.Rollout.Spec.Strategy.Canary.DynamicStableScale {
		g.events.Warn(ctx, p.Rollout, reasons.PromotionWithoutOldPods, "spec.strategy.canary.dynamicStableScale has already "+
			"scaled down the old Pods, and the controller handles a change of spec.replicas without its traffic router: a "+
			"change during a promotion can bypass the wait for the stable Service: do not change spec.replicas until it ends, or "+
			"remove dynamicStableScale")
	}
	waitCtx, cancel := context.WithTimeout(ctx, firstCallTimeout)
	defer cancel()
	_, first := g.waits.Elapsed(p.key(), "")
	for interval := minPollInterval; ; interval = min(2*interval, maxPollInterval) {
		promoted, err := g.isPromoted(waitCtx, p)
		switch {
		case promoted:
			g.Finish(p)
			return nil
		case apierrors.IsForbidden(err):
			g.events.Warn(ctx, p.Rollout, reasons.PromotionNotChecked, fmt.Sprintf("cannot read the Endpoints of Services %q and "+
				"%q, so the promotion does not wait for them: allow the controller's ServiceAccount to get endpoints", p.Stable,
				p.Canary))
			return nil
		}
		elapsed, _ := g.waits.Elapsed(p.key(), "")
		if elapsed >= promotionTimeout {
			g.events.Warn(ctx, p.Rollout, reasons.PromotionNotSafe, fmt.Sprintf("the ready endpoints of Service %q have not been "+
				"the promoted Pods (rollouts-pod-template-hash %s) for %v: continuing the promotion: check the readiness of its Pods", p.Stable, p.Hash,
				promotionTimeout))
			return nil
		}
		if !first || !p.sleep(waitCtx, interval) {
			return g.notPromotedError(ctx, p, elapsed, err)
		}
	}
}

// notPromotedError returns the error of a call in which the promotion did not complete. After eventAfter the Rollout
// gets an Event.
func (g *PromotionGate) notPromotedError(ctx context.Context, p Promotion, elapsed time.Duration, err error) error {
	err = fmt.Errorf("rollout %q: the promotion waits for Service %q, for %v of up to %v: %w; check the readiness of "+
		"its Pods, or write %s: false in %s", router.NameOf(p.Rollout), p.Stable, elapsed.Round(time.Second),
		promotionTimeout, errors.Join(errNotPromoted, err), SafePromotionKey, p.ConfigField)
	if elapsed >= eventAfter {
		g.events.WarnTopic(ctx, p.Rollout, reasons.PromotionWaits, p.Stable, err.Error())
	}
	return err
}

// sleep waits for interval or until the result of StableHasHash may have changed, and returns false if ctx ended.
func (p Promotion) sleep(ctx context.Context, interval time.Duration) bool {
	var changed <-chan struct{}
	if p.Changed != nil {
		changed = p.Changed()
	}
	timer := time.NewTimer(interval)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// isPromoted reports whether the stable Service has only the promoted Pods.
func (g *PromotionGate) isPromoted(ctx context.Context, p Promotion) (bool, error) {
	if p.StableHasHash != nil {
		if matches, known, err := p.StableHasHash(ctx, p.Hash); known || err != nil {
			return matches, err
		}
	}
	stable, err := g.readyAddresses(ctx, p.Rollout.Namespace, p.Stable)
	if err != nil {
		return false, err
	}
	canary, err := g.readyAddresses(ctx, p.Rollout.Namespace, p.Canary)
	if err != nil || len(stable) == 0 {
		return len(canary) == 0 && err == nil, err
	}
	for address := range stable {
		if _, ok := canary[address]; !ok {
			return false, nil
		}
	}
	return true, nil
}
