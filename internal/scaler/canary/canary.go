// Package canary watches HTTPScaledObjects, InterceptorRoutes and Rollouts, and reports which targets have a canary in progress.
//
// A Rollout without replicas still goes through its timed steps, and would promote a version that has received no
// request. So the target keeps a replica while a canary is in progress.
package canary

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler"
)

// Names of Rollouts in the Kubernetes API.
const (
	rolloutGroup    = "argoproj.io"
	rolloutVersion  = "v1alpha1"
	rolloutResource = "rollouts"
	rolloutKind     = "Rollout"
)

// ErrUnknown means that a canary may be in progress, because objects cannot be watched.
var ErrUnknown = errors.New("canary state is unknown")

// Watcher implements scaler.Canaries.
type Watcher struct {
	api      *kube.Client
	objects  *kube.Cache[*object]
	routes   *kube.Cache[*object] // InterceptorRoutes
	rollouts *kube.Cache[*rollout]
}

// New returns a Watcher that connects to the API server of config. Before Run every canary is unknown.
func New(config func() (*rest.Config, error)) *Watcher {
	return &Watcher{
		api:      kube.NewClient(config),
		objects:  kube.NewCache[*object](nil),
		routes:   kube.NewCache[*object](nil),
		rollouts: kube.NewCache[*rollout](nil),
	}
}

// Run watches until ctx ends. It logs a watch that fails, and retries it.
func (w *Watcher) Run(ctx context.Context, logger *slog.Logger) error {
	var watches sync.WaitGroup
	watches.Go(func() {
		source := sourceOf[*object](w.api, "InterceptorRoutes", httpv1beta1.Group, httpv1beta1.Version, httpv1beta1.Resource)
		source.Fallback += " whose trigger names an InterceptorRoute"
		source.IsOptional = true
		w.routes.Follow(ctx, source, logger)
	})
	watches.Go(func() {
		source := sourceOf[*rollout](w.api, "Rollouts", rolloutGroup, rolloutVersion, rolloutResource)
		source.Fallback += " whose target is a Rollout"
		source.Fixes.NotFound = "not needed without Argo Rollouts; otherwise " + source.Fixes.NotFound
		source.IsOptional = true
		w.rollouts.Follow(ctx, source, logger)
	})
	w.objects.Follow(ctx, sourceOf[*object](w.api, "HTTPScaledObjects",
		httpv1alpha1.Group, httpv1alpha1.Version, httpv1alpha1.Resource), logger)
	watches.Wait()
	return nil
}

// sourceOf returns the objects of a resource in all namespaces.
func sourceOf[S interface {
	*T
	kube.State
}, T any](api *kube.Client, title, group, version, resource string) kube.Source[S] {
	return kube.Source[S]{
		Client: api,
		Path:   func(context.Context) ([]string, error) { return []string{"apis", group, version, resource}, nil },
		Decode: func(raw []byte) (S, error) {
			state := S(new(T))
			return state, json.Unmarshal(raw, state)
		},
		Title:    title,
		Fallback: "KEDA gets an error for workloads without demand",
		Fixes: kube.Fixes{
			NotFound: "install the CustomResourceDefinition " + resource + "." + group,
			Forbidden: "allow the scaler's ServiceAccount to list and watch " + resource +
				" in all namespaces: apply config/scaler",
		},
	}
}

// InProgress reports whether the target of an HTTPScaledObject has a canary in progress: the object splits its requests
// between Services, or its target is a Rollout that is neither fully promoted nor aborted. Without an HTTPScaledObject of
// that name, the same is true of an InterceptorRoute. Its target is a Rollout that names it for router kedify/http. It
// is always false if the annotation AnnotationKeepActive is "false". The error is ErrUnknown or scaler.ErrNoObject.
func (w *Watcher) InProgress(name types.NamespacedName) (bool, error) {
	object, isKnown, isSynced := w.objects.Get(name)
	if !isSynced {
		return false, fmt.Errorf("%w: HTTPScaledObjects cannot be watched", ErrUnknown)
	}
	if !isKnown {
		return w.isRouteInProgress(name)
	}
	if object.Metadata.Annotations[httpv1alpha1.AnnotationKeepActive] == "false" {
		return false, nil
	}
	if object.Metadata.Annotations[httpv1alpha1.AnnotationWeightedBackends] != "" {
		return true, nil
	}
	target, isRollout := object.rollout()
	if !isRollout {
		return false, nil
	}
	state, isKnown, isSynced := w.rollouts.Get(target)
	if !isSynced {
		return false, fmt.Errorf("%w: Rollouts cannot be watched", ErrUnknown)
	}
	return isKnown && state.isInProgress(), nil
}

// isRouteInProgress is InProgress for an InterceptorRoute.
func (w *Watcher) isRouteInProgress(name types.NamespacedName) (bool, error) {
	route, isKnown, isSynced := w.routes.Get(name)
	if !isKnown {
		return false, scaler.ErrNoObject
	}
	if !isSynced {
		return false, fmt.Errorf("%w: InterceptorRoutes cannot be watched", ErrUnknown)
	}
	if route.Metadata.Annotations[httpv1alpha1.AnnotationKeepActive] == "false" {
		return false, nil
	}
	if route.Metadata.Annotations[httpv1alpha1.AnnotationWeightedBackends] != "" {
		return true, nil
	}
	targets, isSynced := w.rollouts.ByIndexKey(name.String())
	if !isSynced && w.rollouts.IsAbsent() {
		return false, nil // Without Argo Rollouts there is no canary.
	}
	if !isSynced {
		return false, fmt.Errorf("%w: Rollouts cannot be watched", ErrUnknown)
	}
	return slices.ContainsFunc(targets, (*rollout).isInProgress), nil
}

// Changes returns channels that are closed when the HTTPScaledObject, or the Rollout that is its target, changes, and the
// same for an InterceptorRoute. The second is nil if the target is no Rollout. A Rollout that begins to name an
// InterceptorRoute changes the latter when it sets a weight.
func (w *Watcher) Changes(name types.NamespacedName) (changed [2]<-chan struct{}) {
	changed[0] = w.objects.Changed(name)
	if object, isKnown, _ := w.objects.Get(name); isKnown {
		if target, isRollout := object.rollout(); isRollout {
			changed[1] = w.rollouts.Changed(target)
		}
		return changed
	}
	changed[1] = w.routes.Changed(name)
	if _, isKnown, _ := w.routes.Get(name); isKnown {
		changed[0] = changed[1]
		targets, _ := w.rollouts.ByIndexKey(name.String())
		if changed[1] = nil; len(targets) > 0 {
			changed[1] = w.rollouts.Changed(targets[0].Name())
		}
	}
	return changed
}

// metadata is the part of an object's metadata that the Watcher reads.
type metadata struct {
	Name            string `json:"name"`
	Namespace       string `json:"namespace"`
	ResourceVersion string `json:"resourceVersion"`
}

// object is the part of an HTTPScaledObject that the Watcher reads.
type object struct {
	Metadata struct {
		metadata

		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		ScaleTargetRef struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Name       string `json:"name"`
		} `json:"scaleTargetRef"`
	} `json:"spec"`
}

// UnmarshalJSON keeps only the annotations that the Watcher reads: tenants can write others, up to the size limit of
// the API server.
func (o *object) UnmarshalJSON(raw []byte) error {
	type plain object
	if err := json.Unmarshal(raw, (*plain)(o)); err != nil {
		return err
	}
	kept := map[string]string{}
	if o.Metadata.Annotations[httpv1alpha1.AnnotationWeightedBackends] != "" {
		kept[httpv1alpha1.AnnotationWeightedBackends] = "set"
	}
	if o.Metadata.Annotations[httpv1alpha1.AnnotationKeepActive] == "false" {
		kept[httpv1alpha1.AnnotationKeepActive] = "false"
	}
	o.Metadata.Annotations = kept
	return nil
}

// Name returns the object's namespace and name.
func (o *object) Name() types.NamespacedName {
	return types.NamespacedName{Namespace: o.Metadata.Namespace, Name: o.Metadata.Name}
}

// Version returns the resource version.
func (o *object) Version() string { return o.Metadata.ResourceVersion }

// rollout returns the Rollout that is the object's target, and whether the target is one.
func (o *object) rollout() (types.NamespacedName, bool) {
	target := o.Spec.ScaleTargetRef
	group, _, _ := strings.Cut(target.APIVersion, "/")
	isRollout := target.Kind == rolloutKind && target.Name != "" && (group == "" || group == rolloutGroup)
	return types.NamespacedName{Namespace: o.Metadata.Namespace, Name: target.Name}, isRollout
}

// routerConfig is the part of the configuration of router kedify/http that the Watcher reads. An invalid configuration
// has the zero value: the Rollout is decoded regardless.
type routerConfig struct{ interceptorRoute string }

// UnmarshalJSON implements json.Unmarshaler.
func (c *routerConfig) UnmarshalJSON(raw []byte) error {
	var config struct {
		InterceptorRoute string `json:"interceptorRoute"`
	}
	if json.Unmarshal(raw, &config) == nil {
		c.interceptorRoute = config.InterceptorRoute
	}
	return nil
}

// rollout is the part of a Rollout that the Watcher reads.
type rollout struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Strategy struct {
			Canary struct {
				TrafficRouting struct {
					Plugins struct {
						HTTP routerConfig `json:"kedify/http"`
					} `json:"plugins"`
				} `json:"trafficRouting"`
			} `json:"canary"`
		} `json:"strategy"`
	} `json:"spec"`
	Status struct {
		// StableRS and CurrentPodHash are the pod-template-hashes of the stable version and of the Rollout's current
		// template.
		StableRS       string `json:"stableRS"`
		CurrentPodHash string `json:"currentPodHash"`
		Abort          bool   `json:"abort"`
	} `json:"status"`
}

// Name returns the Rollout's namespace and name.
func (r *rollout) Name() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Metadata.Namespace, Name: r.Metadata.Name}
}

// Version returns the resource version.
func (r *rollout) Version() string { return r.Metadata.ResourceVersion }

// IndexKeys returns the namespace and name of the InterceptorRoute that the Rollout names.
func (r *rollout) IndexKeys() []string {
	if name := r.Spec.Strategy.Canary.TrafficRouting.Plugins.HTTP.interceptorRoute; name != "" {
		return []string{types.NamespacedName{Namespace: r.Metadata.Namespace, Name: name}.String()}
	}
	return nil
}

// isInProgress reports whether a version other than the stable one is being rolled out. The first version of a Rollout
// has no stable one before it, and an aborted version does not progress until it is retried.
func (r *rollout) isInProgress() bool {
	return r.Status.StableRS != "" && r.Status.StableRS != r.Status.CurrentPodHash && !r.Status.Abort
}
