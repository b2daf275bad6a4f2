package install

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/install/manifests"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// errRestoreRecord reports a restore record that cannot be parsed.
var errRestoreRecord = errors.New("annotation " + httpv1alpha1.AnnotationAutowireUndo + " is invalid: " +
	"set the backends manually and remove the annotation")

// restoreBackends restores the original backends of all Ingresses, HTTPRoutes, VirtualServices and Routes that the agent
// has rewritten, and all Services that select the proxies, once no agent is left that would rewrite them again.
func (i *Installer) restoreBackends(ctx context.Context) error {
	if err := i.waitPodsGone(ctx, "agent"); err != nil {
		return err
	}
	ingresses, err := list[networkingv1.Ingress](ctx, i, "", "apis", "networking.k8s.io", "v1", "ingresses")
	if err != nil {
		return fmt.Errorf("list Ingresses: %w", err)
	}
	routing := apis.HTTPRouteKind()
	routes, err := list[apis.HTTPRoute](ctx, i, "", "apis", routing.Group, routing.Version, "httproutes")
	if err != nil {
		return fmt.Errorf("list HTTPRoutes: %w", err)
	}
	istio := apis.VirtualServiceKind()
	services, err := list[apis.VirtualService](ctx, i, "", "apis", istio.Group, istio.Version, "virtualservices")
	if err != nil {
		return fmt.Errorf("list VirtualServices: %w", err)
	}
	clients, err := list[corev1.Service](ctx, i, "", "api", "v1", "services")
	if err != nil {
		return fmt.Errorf("list Services: %w", err)
	}
	var failed error
	for k := range clients {
		failed = errors.Join(failed, i.restore(ctx, "Service", autowire.FromService(&clients[k]), &clients[k],
			"api", "v1", "namespaces", clients[k].Namespace, "services", clients[k].Name))
	}
	for k := range ingresses {
		failed = errors.Join(failed, i.restore(ctx, "Ingress", autowire.FromIngress(&ingresses[k]), &ingresses[k],
			"apis", "networking.k8s.io", "v1", "namespaces", ingresses[k].Namespace, "ingresses", ingresses[k].Name))
	}
	for k := range routes {
		failed = errors.Join(failed, i.restore(ctx, routing.Kind, autowire.FromHTTPRoute(&routes[k], nil), &routes[k],
			"apis", routing.Group, routing.Version, "namespaces", routes[k].Namespace, "httproutes", routes[k].Name))
	}
	for k := range services {
		failed = errors.Join(failed, i.restore(ctx, istio.Kind, autowire.FromVirtualService(&services[k]), &services[k],
			"apis", istio.Group, istio.Version, "namespaces", services[k].Namespace, "virtualservices", services[k].Name))
	}
	return errors.Join(failed, i.restoreRoutes(ctx))
}

// restoreRoutes restores the original backends of all Routes of OpenShift.
func (i *Installer) restoreRoutes(ctx context.Context) (failed error) {
	kind := apis.RouteKind()
	routes, err := list[apis.Route](ctx, i, "", "apis", kind.Group, kind.Version, "routes")
	if err != nil {
		return fmt.Errorf("list Routes: %w", err)
	}
	for k := range routes {
		failed = errors.Join(failed, i.restore(ctx, kind.Kind, autowire.FromRoute(&routes[k]), &routes[k],
			"apis", kind.Group, kind.Version, "namespaces", routes[k].Namespace, "routes", routes[k].Name))
	}
	return failed
}

// restore restores the backends of one object at an API path. The plan of package autowire for an object that no
// application requests to autowire contains the original backends.
func (i *Installer) restore(ctx context.Context, kind string, object autowire.Object, live metav1.Object,
	path ...string,
) error {
	annotations := live.GetAnnotations()
	if annotations[httpv1alpha1.AnnotationAutowireUndo]+annotations[httpv1alpha1.AnnotationAutowireHold] == "" {
		return nil
	}
	unrequested := autowire.Namespace{Objects: []autowire.Object{object}, Now: time.Now()}
	plan, err := unrequested.Plan()
	if err != nil {
		return err
	}
	reference := manifests.Reference{Kind: kind, Namespace: live.GetNamespace(), Name: live.GetName()}
	if len(plan.Changes) == 0 {
		return fmt.Errorf("%s: %w", reference, errRestoreRecord)
	}
	_, err = i.write(ctx, kube.Request{
		Verb: http.MethodPatch, ContentType: string(types.JSONPatchType), Path: path,
	}, plan.Changes[0].At(live))
	if err != nil {
		return fmt.Errorf("%s: %w", reference, err)
	}
	i.report(reference, "restored")
	return nil
}
