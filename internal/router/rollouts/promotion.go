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
)

const (
	// callWait is how long the first call of a promotion waits for the stable Service. Each call holds one of the controller's 10 workers, so later ones look once.
	callWait = 2 * time.Second
	// noticeAfter is how long a promotion waits before the user is told: the controller writes no event for an error of UpdateHash.
	noticeAfter = 10 * time.Second
	// limit is how long a promotion waits in all, over several calls, before the weights are moved whatever the stable Service has.
	limit = 30 * time.Second
	// firstLook and lastLook are the pauses between two looks at the Endpoints: they double from the one to the other.
	firstLook, lastLook = 20 * time.Millisecond, 200 * time.Millisecond
)

// OptOutKey is the key of a router's configuration in a Rollout for whether its promotions wait. Default true.
const OptOutKey = "safePromotion"

// errNotMoved says that the stable Service does not have the promoted Pods yet.
var errNotMoved = errors.New("the ready addresses of the stable Service are not yet those of the promoted Pods")

// Due says whether UpdateHash with these hashes is one at the end of a canary, when the stable Service gets the Pods of the canary. It is not for aborted Rollouts
// and those scaled to zero, and not in a rollback in the middle of a canary, after which the stable Service has the Pods that it had before.
func Due(rollout *v1alpha1.Rollout, canaryHash, stableHash string) bool {
	noReplicas := rollout.Spec.Replicas == nil || *rollout.Spec.Replicas == 0 // a pointer to 0 arrives as nil; the controller itself turns nil into 1
	before := rollout.Status.Canary.Weights
	isRollback := before != nil && before.Stable.PodTemplateHash == stableHash
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
	// ConfigField is the router's configuration in the Rollout, as messages name it.
	ConfigField string
	// Judge says whether the stable Service has the promoted Pods, for routers that know better than the Endpoints tell; judged is false where it doesn't know.
	// May be nil.
	Judge func(context.Context) (moved, judged bool, err error)
	// Changed returns a channel that is closed when Judge may say something new. May be nil.
	Changed func() <-chan struct{}
}

// key tells promotions apart.
func (p Promotion) key() string {
	return string(p.Rollout.UID) + " " + router.NameOf(p.Rollout) + " " + p.Hash
}

// Guard waits for stable Services.
type Guard struct {
	client *kube.Client
	board  *Board
	waits  *kube.Waits
}

// NewGuard returns a Guard that reads Endpoints through client and puts warnings on board.
func NewGuard(client *kube.Client, board *Board) *Guard {
	return &Guard{client: client, board: board, waits: kube.NewWaits()}
}

// End ends a promotion without waiting: the canary has no share that could be taken from it.
func (g *Guard) End(p Promotion) { g.waits.End(p.key()) }

// Await waits until the stable Service has the promoted Pods and no others, and fails when that takes longer than 2 s: from UpdateHash, the controller then makes no
// change to weights, scale or status and reconciles again, after 1 ms at first and 10 s at most (v1.10.1 rollout/canary.go, rolloutCanary; utils/queue). Then it
// looks once and fails at once. After 30 s in all the promotion goes on, with a Warning event. Where neither Service has any ready address, nothing can be lost.
//
// The controller handles a change of spec.replicas without any router, so a promotion cannot be held then; with dynamicStableScale, which has scaled the
// old Pods down by that time, a Warning event says so.
func (g *Guard) Await(ctx context.Context, p Promotion) error {
	if p.Rollout.Spec.Strategy.Canary.DynamicStableScale {
		g.board.Warn(ctx, p.Rollout, "PromotionWithoutOldPods", "spec.strategy.canary.dynamicStableScale has scaled the old Pods down already, and the controller "+
			"handles a change of spec.replicas without its traffic router: one during a promotion can bypass the wait for the stable Service")
	}
	waiting, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	_, first := g.waits.Elapsed(p.key(), "")
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		moved, err := g.moved(waiting, p)
		switch {
		case moved:
			g.End(p)
			return nil
		case apierrors.IsForbidden(err):
			g.board.Warn(ctx, p.Rollout, "PromotionNotChecked", fmt.Sprintf("the Endpoints of Services %q and %q may not be read, so the promotion does not wait for "+
				"them: allow the controller's ServiceAccount to get endpoints", p.Stable, p.Canary))
			return nil
		}
		waited, _ := g.waits.Elapsed(p.key(), "")
		if waited >= limit {
			g.board.Warn(ctx, p.Rollout, "PromotionNotSafe", fmt.Sprintf("Service %q has not had the promoted Pods (rollouts-pod-template-hash %s) as its ready endpoints "+
				"for %v: its requests go back to it now", p.Stable, p.Hash, limit))
			return nil
		}
		if !first || !p.pauseFor(waiting, pause) {
			return g.stillWaits(ctx, p, waited, err)
		}
	}
}

// stillWaits is the error of a call that a promotion waited in vain in. A promotion that waits for long gets an event.
func (g *Guard) stillWaits(ctx context.Context, p Promotion, waited time.Duration, err error) error {
	err = fmt.Errorf("rollout %q: the promotion waits for Service %q, for %v so far and up to %v: %w; check the readiness of its Pods, or write %s: false in %s",
		router.NameOf(p.Rollout), p.Stable, waited.Round(time.Second), limit, errors.Join(errNotMoved, err), OptOutKey, p.ConfigField)
	if waited >= noticeAfter {
		g.board.WarnOf(ctx, p.Rollout, "PromotionWaits", p.Stable, err.Error())
	}
	return err
}

// pauseFor waits for pause or until Judge may know more, and says whether ctx still lasts.
func (p Promotion) pauseFor(ctx context.Context, pause time.Duration) bool {
	var changed <-chan struct{}
	if p.Changed != nil {
		changed = p.Changed()
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// moved says whether the stable Service has the promoted Pods and no others.
func (g *Guard) moved(ctx context.Context, p Promotion) (bool, error) {
	if p.Judge != nil {
		if moved, judged, err := p.Judge(ctx); judged || err != nil {
			return moved, err
		}
	}
	stable, err := g.ready(ctx, p.Rollout.Namespace, p.Stable)
	if err != nil {
		return false, err
	}
	canary, err := g.ready(ctx, p.Rollout.Namespace, p.Canary)
	if err != nil || len(stable) == 0 {
		return len(canary) == 0 && err == nil, err
	}
	for address := range stable {
		if !canary[address] {
			return false, nil
		}
	}
	return true, nil
}

// HasReady says whether a Service of the Rollout has a ready address. Where Endpoints may not be read it is taken to have none, with a Warning event.
func (g *Guard) HasReady(ctx context.Context, rollout *v1alpha1.Rollout, service string) (bool, error) {
	addresses, err := g.ready(ctx, rollout.Namespace, service)
	if apierrors.IsForbidden(err) {
		g.board.Warn(ctx, rollout, "AbortNotImmediate", fmt.Sprintf("the Endpoints of Service %q may not be read, so the canary keeps its share until every stable Pod is "+
			"available: allow the controller's ServiceAccount to get endpoints", service))
		return false, nil
	}
	return len(addresses) > 0, err
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
func (g *Guard) ready(ctx context.Context, namespace, service string) (map[string]bool, error) {
	var found endpoints
	err := g.client.Get(ctx, &found, "api", "v1", "namespaces", namespace, "endpoints", service)
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
