package httpso

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kedify/argo-rollouts-plugin/internal/split"
)

const (
	// promotionWait is how long one UpdateHash waits for the stable Service.
	promotionWait = 2 * time.Second
	// promotionLimit is how long a promotion waits in all, over several calls, before the weights are moved whatever the stable Service has.
	promotionLimit = 30 * time.Second
	// firstLook and lastLook are the pauses between two looks at the Endpoints: they double from the one to the other.
	firstLook, lastLook = 20 * time.Millisecond, 200 * time.Millisecond
)

// errNotMoved says that the stable Service does not have the promoted Pods yet.
var errNotMoved = errors.New("the ready addresses of the stable Service are not yet those of the promoted Pods")

// UpdateHash makes promotions safe. When a canary is promoted, the controller points the stable Service at the new Pods and asks, some 20 ms later, for all
// requests to go back to that Service, whose endpoints are still the old Pods or none. The shares themselves need no hashes, because they name Services.
//
// So while the two hashes are the same and the canary still has a share, it waits until the stable Service has the promoted Pods, and fails when that takes
// longer than promotionWait: the controller then makes no change to weights, scale or status and reconciles again, after 1 ms at first and 10 s at most (v1.10.1
// rollout/canary.go, rolloutCanary; utils/queue). After promotionLimit the promotion goes on, with a Warning event.
//
// The controller handles a change of spec.replicas without any router, so a promotion cannot be held then; with dynamicStableScale, which has scaled the
// old Pods down by that time, a Warning event says so.
//
// It does nothing for aborted Rollouts, those scaled to zero, and those that say safePromotion: false. What is wrong with a Rollout's fields, or what may not be
// read, SetWeight reports, which comes next.
func (r *Router) UpdateHash(ctx context.Context, rollout *v1alpha1.Rollout, canaryHash, stableHash string, _ []v1alpha1.WeightDestination) error {
	noReplicas := rollout.Spec.Replicas == nil || *rollout.Spec.Replicas == 0 // a pointer to 0 arrives as nil; the controller itself turns nil into 1
	if canaryHash != stableHash || stableHash == "" || rollout.Status.Abort || noReplicas {
		return nil
	}
	want, err := intentOf(rollout, 0, nil)
	if err != nil || !want.safePromotion {
		return nil //nolint:nilerr // SetWeight says it, in an event
	}
	found, _, err := r.client.recent(ctx, want.object)
	switch {
	case passes(err):
		return explain(want, err)
	case err != nil:
		return nil //nolint:nilerr // SetWeight says it, in an event
	}
	key := "promotion " + string(rollout.UID) + " " + want.rollout + " " + stableHash
	if _, isForeign := want.foreign(found); isForeign || !shared(found, want.shares.Canary.Service) {
		r.waits.end(key)
		return nil
	}
	if rollout.Spec.Strategy.Canary.DynamicStableScale {
		r.warn(ctx, rollout, "PromotionWithoutOldPods", "spec.strategy.canary.dynamicStableScale has scaled the old Pods down already, and the controller handles a change of "+
			"spec.replicas without its traffic router: one during a promotion can bypass the wait for the stable Service")
	}
	return r.awaitPromotion(ctx, rollout, want, stableHash, key)
}

// shared says whether found gives service a part of the requests.
func shared(found *object, service string) bool {
	backends, err := split.Parse(found.text)
	return err == nil && slices.ContainsFunc(backends, func(b split.Backend) bool { return b.Service == service && b.Weight > 0 })
}

// awaitPromotion waits until the stable Service has the Pods of stableHash.
func (r *Router) awaitPromotion(ctx context.Context, rollout *v1alpha1.Rollout, want intent, stableHash, key string) error {
	limit, cancel := context.WithTimeout(ctx, promotionWait)
	defer cancel()
	pause := firstLook
	for {
		moved, err := r.moved(limit, want, stableHash)
		switch {
		case moved:
			r.waits.end(key)
			return nil
		case apierrors.IsForbidden(err):
			r.warn(ctx, rollout, "PromotionNotChecked", fmt.Sprintf("the Endpoints of Services %q and %q may not be read, so the promotion does not wait for them: allow the "+
				"controller's ServiceAccount to get endpoints", want.shares.Stable.Service, want.shares.Canary.Service))
			return nil
		}
		waited, _ := r.waits.elapsed(key)
		if waited >= promotionLimit {
			r.warn(ctx, rollout, "PromotionNotSafe", fmt.Sprintf("Service %q has not had the promoted Pods (rollouts-pod-template-hash %s) as its ready endpoints for %v: "+
				"its requests go back to it now", want.shares.Stable.Service, stableHash, promotionLimit))
			return nil
		}
		if !r.pauseFor(limit, want, pause) {
			return fmt.Errorf("rollout %q: the promotion waits for Service %q, for %v so far and up to %v: %w; check the readiness of its Pods, or write %s: false in %s",
				want.rollout, want.shares.Stable.Service, waited.Round(time.Second), promotionLimit, errors.Join(errNotMoved, err), promotionKey, configField)
		}
		pause = min(2*pause, lastLook)
	}
}

// pauseFor waits for pause or until the object changes, and says whether ctx still lasts.
func (r *Router) pauseFor(ctx context.Context, want intent, pause time.Duration) bool {
	changed := r.client.cache.changed(want.object)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// moved says whether the stable Service has the Pods of stableHash and no others. An interceptor that lives and knows the hashes is believed, because the proxies have
// what it has; else the Endpoints decide.
func (r *Router) moved(ctx context.Context, want intent, stableHash string) (bool, error) {
	found, _, err := r.client.recent(ctx, want.object)
	if err != nil {
		return false, err
	}
	if report := found.report; report != nil && len(report.StableHashes) > 0 && r.pulse.feel(ctx) == alive {
		return slices.Equal(report.StableHashes, []string{stableHash}), nil
	}
	stable, err := r.ready(ctx, want.object.Namespace, want.shares.Stable.Service)
	if err != nil || len(stable) == 0 {
		return false, err
	}
	canary, err := r.ready(ctx, want.object.Namespace, want.shares.Canary.Service)
	if err != nil {
		return false, err
	}
	for address := range stable {
		if !canary[address] {
			return false, nil
		}
	}
	return true, nil
}

// endpoints is the part of an Endpoints object (core/v1) that names what is ready. The controller's ServiceAccount may get those, but no EndpointSlices.
type endpoints struct {
	Subsets []struct {
		Addresses []struct {
			IP string `json:"ip"`
		} `json:"addresses"`
	} `json:"subsets"`
}

// ready lists the ready addresses of a Service; none where it has no Endpoints.
func (r *Router) ready(ctx context.Context, namespace, service string) (map[string]bool, error) {
	var found endpoints
	err := r.client.lookUp(ctx, &found, "api", "v1", "namespaces", namespace, "endpoints", service)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("endpoints of Service %q: %w", service, err)
	}
	addresses := map[string]bool{}
	for _, subset := range found.Subsets {
		for _, address := range subset.Addresses {
			addresses[address.IP] = true
		}
	}
	return addresses, nil
}
