// Package canary watches HTTPScaledObjects and Rollouts, and says which targets are in a canary.
//
// A Rollout without replicas goes through its timed steps all the same, and would promote a version
// that no request has ever reached. So its target keeps a replica while a canary is under way.
package canary

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler"
)

// What Rollouts are called in the API.
const (
	rolloutGroup    = "argoproj.io"
	rolloutVersion  = "v1alpha1"
	rolloutResource = "rollouts"
	rolloutKind     = "Rollout"
)

// ErrUnknown says that it is not known whether a canary is under way, because objects cannot be
// watched.
var ErrUnknown = errors.New("whether a canary is under way is not known")

// Watcher knows which targets are in a canary.
type Watcher struct {
	api      *kube.Client
	objects  *kube.Cache[*object]
	rollouts *kube.Cache[*rollout]
}

// New returns a Watcher that reaches the API server as config says, and knows nothing before Run.
func New(config func() (*rest.Config, error)) *Watcher {
	return &Watcher{
		api:      kube.NewClient(config),
		objects:  kube.NewCache[*object](nil),
		rollouts: kube.NewCache[*rollout](nil),
	}
}

// Run watches until ctx ends. What cannot be watched is logged, and tried again.
func (w *Watcher) Run(ctx context.Context, logger *slog.Logger) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		follow(ctx, w.api, w.rollouts, logger, "Rollouts", rolloutGroup, rolloutVersion, rolloutResource)
	}()
	follow(ctx, w.api, w.objects, logger, "HTTPScaledObjects",
		httpv1alpha1.Group, httpv1alpha1.Version, httpv1alpha1.Resource)
	<-done
	return nil
}

// follow keeps one cache until ctx ends.
func follow[S interface {
	*T
	kube.State
}, T any](
	ctx context.Context, api *kube.Client, cache *kube.Cache[S], logger *slog.Logger,
	title, group, version, resource string,
) {
	cache.Follow(ctx, kube.Source[S]{
		Client: api,
		Path:   func(context.Context) ([]string, error) { return []string{"apis", group, version, resource}, nil },
		Decode: func(raw []byte) (S, error) {
			state := S(new(T))
			return state, json.Unmarshal(raw, state)
		},
		Title:     title,
		Meanwhile: "whether a workload without demand is active is not known to KEDA",
		Remedies: kube.Remedies{
			NotFound: "install the CustomResourceDefinition " + resource + "." + group,
			Forbidden: "allow the scaler's ServiceAccount to list and watch " + resource +
				" in all namespaces: apply config/scaler",
		},
	}, logger)
}

// UnderWay says whether the target of an HTTPScaledObject is in a canary: the object shares its
// requests between Services, or its target is a Rollout that is neither fully promoted nor aborted.
// With the annotation AnnotationKeepActive set to "false" it never is. An error is ErrUnknown or
// scaler.ErrNoObject.
func (w *Watcher) UnderWay(name types.NamespacedName) (bool, error) {
	found, known, believed := w.objects.Get(name)
	if !believed {
		return false, fmt.Errorf("%w: HTTPScaledObjects cannot be watched", ErrUnknown)
	}
	if !known {
		return false, scaler.ErrNoObject
	}
	if found.Metadata.Annotations[httpv1alpha1.AnnotationKeepActive] == "false" {
		return false, nil
	}
	if found.Metadata.Annotations[httpv1alpha1.AnnotationWeightedBackends] != "" {
		return true, nil
	}
	target, is := found.rollout()
	if !is {
		return false, nil
	}
	state, known, believed := w.rollouts.Get(target)
	if !believed {
		return false, fmt.Errorf("%w: Rollouts cannot be watched", ErrUnknown)
	}
	return known && state.underWay(), nil
}

// Changes returns channels that are closed when the HTTPScaledObject, or the Rollout that is its target,
// has changed; the second is nil where there is none.
func (w *Watcher) Changes(name types.NamespacedName) (changed [2]<-chan struct{}) {
	changed[0] = w.objects.Changed(name)
	if found, known, _ := w.objects.Get(name); known {
		if target, is := found.rollout(); is {
			changed[1] = w.rollouts.Changed(target)
		}
	}
	return changed
}

// metadata is what is read of every object's metadata.
type metadata struct {
	Name            string `json:"name"`
	Namespace       string `json:"namespace"`
	ResourceVersion string `json:"resourceVersion"`
}

// object is what is read of an HTTPScaledObject.
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

// UnmarshalJSON keeps of the annotations only those that count: any tenant can write others, as
// large as the API server takes them.
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

// Name is the object's namespace and name.
func (o *object) Name() types.NamespacedName {
	return types.NamespacedName{Namespace: o.Metadata.Namespace, Name: o.Metadata.Name}
}

// Version is its resource version.
func (o *object) Version() string { return o.Metadata.ResourceVersion }

// rollout names the Rollout that is the object's target, if one is.
func (o *object) rollout() (types.NamespacedName, bool) {
	target := o.Spec.ScaleTargetRef
	group, _, _ := strings.Cut(target.APIVersion, "/")
	is := target.Kind == rolloutKind && target.Name != "" && (group == "" || group == rolloutGroup)
	return types.NamespacedName{Namespace: o.Metadata.Namespace, Name: target.Name}, is
}

// rollout is what is read of a Rollout.
type rollout struct {
	Metadata metadata `json:"metadata"`
	Status   struct {
		// StableRS and CurrentPodHash are pod-template-hashes: of the version that is in force, and
		// of what the Rollout's template says now.
		StableRS       string `json:"stableRS"`
		CurrentPodHash string `json:"currentPodHash"`
		Abort          bool   `json:"abort"`
	} `json:"status"`
}

// Name is the Rollout's namespace and name.
func (r *rollout) Name() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Metadata.Namespace, Name: r.Metadata.Name}
}

// Version is its resource version.
func (r *rollout) Version() string { return r.Metadata.ResourceVersion }

// underWay says whether another version than the one in force is on its way. The first version of
// all has none before it, and an aborted one goes nowhere until somebody asks for it again.
func (r *rollout) underWay() bool {
	return r.Status.StableRS != "" && r.Status.StableRS != r.Status.CurrentPodHash && !r.Status.Abort
}
