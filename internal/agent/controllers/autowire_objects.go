package controllers

import (
	"context"
	"errors"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// routers are the objects of a namespace whose backends can reference the proxies.
type routers struct {
	ingresses networkingv1.IngressList
	routes    apis.HTTPRouteList
	services  apis.VirtualServiceList
	openShift apis.RouteList
}

// count returns the number of objects.
func (r *routers) count() int {
	return len(r.ingresses.Items) + len(r.routes.Items) + len(r.services.Items) + len(r.openShift.Items)
}

// objects reads the Ingresses, HTTPRoutes, VirtualServices and Routes of a namespace into it, adds those of its Services
// that autowiring may change, and returns them in the same order.
func (a *AutowireReconciler) objects(
	ctx context.Context, name string, into *autowire.Namespace,
) (objects []client.Object, err error) {
	found, err := a.readRouters(ctx, name, into)
	if err == nil {
		err = a.readInputs(ctx, name, found, into)
	}
	var rollouts apis.RolloutList
	if err == nil && found.count() > 0 && a.IsInstalled(apis.RolloutKind()) {
		err = a.Client.List(ctx, &rollouts, client.UnsafeDisableDeepCopy) // a Rollout may manage routes of other namespaces
	}
	if err != nil {
		return nil, fmt.Errorf("read namespace %s: %w", name, err)
	}
	routings := autowire.Routings(rollouts.Items...)
	for i := range found.ingresses.Items {
		objects = append(objects, &found.ingresses.Items[i])
		into.Objects = append(into.Objects, autowire.FromIngress(&found.ingresses.Items[i], routings...))
	}
	for i := range found.routes.Items {
		objects = append(objects, &found.routes.Items[i])
		into.Objects = append(into.Objects, autowire.FromHTTPRoute(&found.routes.Items[i], routings))
	}
	for i := range found.services.Items {
		objects = append(objects, &found.services.Items[i])
		into.Objects = append(into.Objects, autowire.FromVirtualService(&found.services.Items[i], routings...))
	}
	for i := range found.openShift.Items {
		objects = append(objects, &found.openShift.Items[i])
		into.Objects = append(into.Objects, autowire.FromRoute(&found.openShift.Items[i], routings...))
	}
	if into.OtherEndpoints, err = a.otherEndpoints(ctx, name, into.ServicesWithoutSelector()); err != nil {
		return nil, err
	}
	for _, service := range into.ServiceObjects() {
		objects = append(objects, service)
		into.Objects = append(into.Objects, autowire.FromService(service))
	}
	return objects, nil
}

// readRouters reads the objects of a namespace. Without the permission for VirtualServices or Routes, it records that in
// into.Unlisted.
func (a *AutowireReconciler) readRouters(
	ctx context.Context, name string, into *autowire.Namespace,
) (*routers, error) {
	found, inside := new(routers), client.InNamespace(name)
	err := a.Client.List(ctx, &found.ingresses, inside)
	if err == nil && a.IsInstalled(apis.HTTPRouteKind()) {
		err = a.Client.List(ctx, &found.routes, inside)
	}
	if err != nil {
		return nil, err
	}
	into.Unlisted = map[trigger.AutowireKind]string{}
	optional := func(name trigger.AutowireKind, kind schema.GroupVersionKind, list client.ObjectList) error {
		problem, err := a.list(ctx, a.Routers.of(kind), kind, list, inside)
		if problem != "" {
			into.Unlisted[name] = problem
		}
		return err
	}
	return found, errors.Join(
		optional(trigger.AutowireVirtualService, apis.VirtualServiceKind(), &found.services),
		optional(trigger.AutowireRoute, apis.RouteKind(), &found.openShift))
}

// readInputs reads what decides how the controllers of objects of a namespace use Services.
func (a *AutowireReconciler) readInputs(
	ctx context.Context, name string, found *routers, into *autowire.Namespace,
) (err error) {
	into.Unreadable = map[trigger.AutowireKind]string{}
	if len(found.ingresses.Items) > 0 {
		into.Classes, into.Unreadable[trigger.AutowireIngress], err = a.ingressClasses(ctx)
	}
	if err == nil && len(found.routes.Items) > 0 {
		into.TLSPolicies, into.Unreadable[trigger.AutowireHTTPRoute], err = a.tlsPolicies(ctx, name)
	}
	if err == nil && len(found.services.Items) > 0 {
		var rules apis.DestinationRuleList
		into.Unreadable[trigger.AutowireVirtualService], err = a.list(
			ctx, a.rules, apis.DestinationRuleKind(), &rules, client.InNamespace(name))
		into.DestinationRules = rules.Items
	}
	return err
}
