package installer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/plan"
	"github.com/kedify/argo-rollouts-plugin/internal/apiserver"
)

// errUndo says that nobody can tell what an Ingress was.
var errUndo = errors.New("annotation " + httpv1alpha1.AnnotationAutowireUndo + " was edited and means nothing any more: " +
	"write the backends yourself, and remove it")

// unwire gives all Ingresses that the agent has wired their backends back, once no agent is left to wire them anew.
func (i *Installer) unwire(ctx context.Context) error {
	if err := i.gone(ctx, "agent"); err != nil {
		return err
	}
	ingresses, err := list[networkingv1.Ingress](ctx, i, "", "apis", "networking.k8s.io", "v1", "ingresses")
	if err != nil {
		return fmt.Errorf("list Ingresses: %w", err)
	}
	var failed error
	for k := range ingresses {
		failed = errors.Join(failed, i.restore(ctx, &ingresses[k]))
	}
	return failed
}

// restore gives one Ingress its backends back. What it was is worked out as the agent does: with nobody who wants it
// wired.
func (i *Installer) restore(ctx context.Context, ingress *networkingv1.Ingress) error {
	if ingress.Annotations[httpv1alpha1.AnnotationAutowireUndo]+ingress.Annotations[httpv1alpha1.AnnotationAutowireHold] == "" {
		return nil
	}
	nobody := autowire.Namespace{Ingresses: []networkingv1.Ingress{*ingress}, Now: time.Now()}
	found, err := nobody.Plan()
	if err != nil {
		return err
	}
	of := "Ingress " + ingress.Namespace + "/" + ingress.Name
	if len(found.Changes) == 0 {
		return fmt.Errorf("%s: %w", of, errUndo)
	}
	patch := append(slices.Clone(found.Changes[0].Patch), plan.Operation{Op: "replace", Path: "/metadata/resourceVersion", Value: ingress.ResourceVersion})
	_, err = i.write(ctx, apiserver.Request{
		Verb: http.MethodPatch, ContentType: string(types.JSONPatchType),
		Path: []string{"apis", "networking.k8s.io", "v1", "namespaces", ingress.Namespace, "ingresses", ingress.Name},
	}, patch)
	if err != nil {
		return fmt.Errorf("%s: %w", of, err)
	}
	i.sayf("%s %s", of, i.outcome("restored", "would be restored"))
	return nil
}
