package httpso

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/internal/router/engine"
)

const (
	// emptyFleetLimit is how long a Rollout at the full weight waits for a Ready proxy. Without one no requests are served at all, while the controller
	// neither scales nor reports at that weight until it is verified.
	emptyFleetLimit = 60 * time.Second
	// bygoneLimit is how long a report that was made before the annotation was written last is not believed, although it is about the same text. An interceptor
	// that lives reports anew within a fraction of it, unless the text went and came back while none was there to see.
	bygoneLimit = 5 * time.Second
)

// errDiffers says that an HTTPScaledObject does not carry the annotations that are asked for.
var errDiffers = errors.New("the annotation " + httpv1alpha1.AnnotationWeightedBackends + " or " + httpv1alpha1.AnnotationManagedRoutes + " is not as it was written")

// target is an HTTPScaledObject, bound to what is asked of it.
type target struct {
	*routing

	want    intent
	isAlone bool // whether the objects of other triggers could not be looked for
}

var (
	_ engine.Target[*object] = (*target)(nil)
	_ engine.PodsReporter    = (*target)(nil)
)

// String names the object in messages.
func (t *target) String() string { return fmt.Sprintf("HTTPScaledObject %q", t.want.object) }

// Recent returns the object from the cache where that can be believed, else from the API server.
func (t *target) Recent(ctx context.Context) (found *object, cached bool, err error) {
	return t.client.recent(ctx, t.want.object)
}

// Read returns the object from the API server.
func (t *target) Read(ctx context.Context) (*object, error) { return t.client.get(ctx, t.want.object) }

// Await waits until decided says true of a state of the object.
func (t *target) Await(ctx context.Context, found *object, decided func(*object) bool) (*object, error) {
	last, _, err := t.client.cache.Await(ctx, t.want.object, found, engine.StatusWait, t.Read, decided)
	return last, err
}

// Plan writes the shares into the annotation, stable first, and the header and mirror routes into theirs, or removes both when the stable Service gets everything.
// What anybody else wrote there is overwritten, unless another Rollout did, which is an error while that Rollout exists and names the object.
func (t *target) Plan(ctx context.Context, found *object) (engine.Change, error) {
	if err := t.checkOwner(ctx, found); err != nil {
		return engine.Change{}, err
	}
	mark, warnings := t.want.mark(found), t.warnings(found)
	if t.want.holds(found) && found.owner == mark {
		return engine.Change{Warnings: warnings}, nil
	}
	weights, managed := t.want.texts(found)
	annotations := map[string]string{httpv1alpha1.AnnotationWeightedBackends: weights, httpv1alpha1.AnnotationWeightedBackendsOwner: mark}
	if managed != "" || found.isManaged {
		annotations[httpv1alpha1.AnnotationManagedRoutes] = managed
	}
	return engine.Change{
		Attributes: []any{"removed", weights == ""}, Warnings: warnings,
		Write: func(ctx context.Context) error { return t.client.annotate(ctx, found, annotations) },
	}, nil
}

// warnings say that the requests of other triggers may all go to the stable Service.
func (t *target) warnings(found *object) []string {
	if !t.isAlone || found.scaledObject == "" {
		return nil
	}
	return []string{fmt.Sprintf("those of the other triggers of ScaledObject %q, if it has any, cannot be found and have no part in the canary: allow the controller's "+
		"ServiceAccount to list httpscaledobjects: apply the ClusterRole argo-rollouts-kedify-http", found.scaledObject)}
}

// Holds says whether the object carries the annotations exactly as Plan writes them.
func (t *target) Holds(_ context.Context, found *object) error {
	if other, isForeign := t.want.foreign(found); isForeign {
		return fmt.Errorf("%w: rollout %q", errOwned, other.rollout)
	}
	if !t.want.holds(found) {
		return errDiffers
	}
	return nil
}

// Taken says whether every Ready proxy of at least one has taken the annotation, by the interceptor's report. Where no interceptor lives, nobody keeps reports up
// to date, and the annotation alone is judged.
func (t *target) Taken(ctx context.Context, found *object) (engine.Verdict, string) {
	switch t.pulse.feel(ctx) {
	case absent:
		return engine.Taken, ""
	case unknown:
		return engine.Unknown, "the interceptors' Lease cannot be read now"
	default:
	}
	verdict, why := takenByAll(found)
	if verdict != engine.Taken {
		why += fmt.Sprintf("; look at the kedify-proxy of namespace %q and the interceptor's log, or write %s: false in %s", t.want.object.Namespace, verifyKey, configField)
	}
	return verdict, why
}

// takenByAll says whether found's report is about the annotation that found carries, and every Ready proxy of at least one shares requests exactly so. A weight
// that was left and set again has the text of before; until the report is of the later write, it is about the earlier one.
func takenByAll(found *object) (engine.Verdict, string) {
	report := found.report
	if report == nil {
		return engine.Unknown, "it has no report of an interceptor"
	}
	isBygone := report.ResourceVersion != "" && kube.Older(report.ResourceVersion, found.since) && time.Since(found.seenAt) < bygoneLimit
	switch ready, acked := report.Proxies.Ready, report.Proxies.Acked; {
	case ready == 0:
		return engine.Unknown, "there is no Ready proxy"
	case isBygone || report.AnnotationHash != split.Hash(found.text, found.managed):
		return engine.NotTaken, fmt.Sprintf("the interceptor has not reported on this annotation yet, last on another with %d of %d Ready proxies", acked, ready)
	case acked != ready:
		return engine.NotTaken, fmt.Sprintf("%d of %d Ready proxies have taken it", acked, ready)
	case !report.Effective:
		return engine.NotTaken, fmt.Sprintf("%d of %d Ready proxies have taken it, but a share is redirected, because its Service has no ready endpoint", acked, ready)
	}
	return engine.Taken, ""
}

// Excuse lets a Rollout at the full weight go on that has had no Ready proxy for emptyFleetLimit.
func (t *target) Excuse(found *object, waited engine.Waited) (engine.Excuse, bool) {
	hasReady := found.report != nil && found.report.Proxies.Ready > 0
	if !waited.Full || hasReady || waited.Time < emptyFleetLimit {
		return engine.Excuse{}, false
	}
	return engine.Excuse{Reason: "DataPlaneNotVerified", Message: fmt.Sprintf("HTTPScaledObject %q has had no Ready proxy for %v: the full canary weight counts as "+
		"verified by its annotation alone; check the kedify-proxy of namespace %q", t.want.object, emptyFleetLimit, t.want.object.Namespace)}, true
}

// Shared says whether the annotation is this Rollout's and gives a part of the requests to anybody but the stable Service.
func (t *target) Shared(found *object) bool {
	if _, isForeign := t.want.foreign(found); isForeign {
		return false
	}
	backends, err := split.Parse(found.text)
	return err == nil && slices.ContainsFunc(backends, func(b split.Backend) bool { return b.Service != t.want.shares.Stable.Service && b.Weight > 0 })
}

// StableHas says whether the interceptor reports the stable Service to have the Pods of hash and no others. One that lives and knows the hashes is believed, because
// the proxies have what it has; else nothing is judged.
func (t *target) StableHas(ctx context.Context, hash string) (moved, judged bool, err error) {
	found, _, err := t.Recent(ctx)
	if err != nil {
		return false, false, err
	}
	if report := found.report; report != nil && len(report.StableHashes) > 0 && t.pulse.feel(ctx) == alive {
		return slices.Equal(report.StableHashes, []string{hash}), true, nil
	}
	return false, false, nil
}

// Changed returns a channel that is closed at the next change of the object.
func (t *target) Changed() <-chan struct{} { return t.client.cache.Changed(t.want.object) }

// Missing says whether err says that there is no such object.
func (*target) Missing(err error) bool { return apierrors.IsNotFound(err) }

// Explain says for a failed read or write which object it concerns and what to do about it. A nil err stays nil.
func (t *target) Explain(err error) error {
	if err == nil {
		return nil
	}
	return kube.Explain(fmt.Sprintf("%s of rollout %q", t, t.want.rollout), err, kube.Remedies{
		NotFound: fmt.Sprintf("create it (and install the CustomResourceDefinition httpscaledobjects.http.keda.sh if it is missing), or correct %s.%s",
			configField, objectKey),
		Forbidden: "allow the controller's ServiceAccount to get and patch httpscaledobjects: apply the ClusterRole and ClusterRoleBinding argo-rollouts-kedify-http",
	})
}
