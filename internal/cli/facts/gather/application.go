package gather

import (
	"context"
	"fmt"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/adopt"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// Application reads a Rollout and the related objects in its namespace. It fails if any of them cannot be read.
func (r *Reader) Application(ctx context.Context, name types.NamespacedName) (adopt.Application, error) {
	var app adopt.Application
	rollout, err := r.getRollout(ctx, name)
	if err != nil {
		return app, err
	}
	app.Rollout = rollout
	for _, part := range []struct {
		name string
		read func() error
	}{
		{"Services", func() (err error) {
			app.Services, err = list[corev1.Service](ctx, r, "v1", "services", name.Namespace, "")
			return err
		}},
		{"Ingresses", func() (err error) {
			app.Ingresses, err = list[networkingv1.Ingress](ctx, r, "networking.k8s.io/v1", "ingresses", name.Namespace,
				"")
			return err
		}},
		{"HorizontalPodAutoscalers", func() (err error) {
			app.Autoscalers, err = list[autoscalingv2.HorizontalPodAutoscaler](ctx, r, "autoscaling/v2",
				"horizontalpodautoscalers", name.Namespace, "")
			return err
		}},
		{"ScaledObjects", func() (err error) {
			app.ScaledObjects, err = list[facts.ScaledObject](ctx, r, "keda.sh/v1alpha1", "scaledobjects",
				name.Namespace, "")
			return err
		}},
	} {
		if err := part.read(); err != nil {
			return app, fmt.Errorf("%s in namespace %s: %w", part.name, name.Namespace, err)
		}
	}
	return app, nil
}

// getRollout reads a Rollout, which must exist.
func (r *Reader) getRollout(ctx context.Context, name types.NamespacedName) (*v1alpha1.Rollout, error) {
	rollout, err := find[v1alpha1.Rollout](ctx, r, rolloutPath(name)...)
	switch {
	case err != nil:
		return nil, fmt.Errorf("rollout %s: %w", name, err)
	case rollout == nil:
		return nil, fmt.Errorf("%w: %s: check the name and --namespace", ErrRolloutNotFound, name)
	}
	return rollout, nil
}
