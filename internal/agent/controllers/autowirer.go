package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/truncate"
)

// autowireOwner is the field manager of the condition that the Autowirer writes: what one field manager
// applies is all that it has, and the Reconciler applies conditions, too.
const autowireOwner = fieldOwner + "-autowire"

// Autowirer keeps the backends of Ingresses and HTTPRoutes as package autowire decides. It is a
// reconcile.Reconciler whose requests name namespaces; Register has controller-runtime call it.
type Autowirer struct {
	// Client reads from a cache, and writes. The cache must keep the metadata of Ingresses and HTTPRoutes whole.
	Client client.Client
	// Stored reads without a cache.
	Stored client.Reader
	// Events takes the Events on Ingresses, HTTPRoutes and HTTPScaledObjects.
	Events record.EventRecorder
	// Now is the clock.
	Now func() time.Time
	// ScalerAddress is where KEDA reaches our scaler, as host:port.
	ScalerAddress string
	// CoolDown is how long nothing is wired again after the proxies were lost.
	CoolDown time.Duration
	// IsOff has every object restored, and none wired.
	IsOff bool
	// Shared is the namespace of the interceptor, whose proxies are the shared fleet.
	Shared string
	// Namespaces are those that are watched; none means all.
	Namespaces []string
	// Grants reads the ReferenceGrants of namespace Shared, once they are known. Register sets it.
	Grants func(context.Context) (grants []apis.ReferenceGrant, areKnown bool, err error)
	// Keep keeps a connection to each proxy of a namespace, and returns those that have suddenly ended. Register sets it; nil knows of none.
	Keep func(namespace string, proxies []netip.AddrPort) (gone []netip.AddrPort)
	// IsServed says whether the API server is known to have a kind that need not be installed: HTTPRoutes,
	// Rollouts. Register sets it.
	IsServed func(schema.GroupVersionKind) bool

	conditions place
}

// Reconcile makes the objects of a namespace, which the request names, what they should be.
func (a *Autowirer) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	namespace, scaled, err := a.read(ctx, request.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	found, err := a.objects(ctx, request.Name, &namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	todo, refused, err := a.plan(ctx, &namespace)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("namespace %s: %w", request.Name, err)
	}
	var failed error
	for _, change := range todo.Changes {
		if err := a.write(ctx, found[change.Index], change); err != nil {
			failed = errors.Join(failed, fmt.Errorf("namespace %s: write %s: %w", request.Name, &namespace.Objects[change.Index], err))
		}
	}
	if failed == nil { // until then they would say what is not so
		failed = a.report(ctx, scaled, todo.Conditions)
	}
	failed = errors.Join(failed, refused)
	if apierrors.IsConflict(failed) {
		return ctrl.Result{RequeueAfter: retryAfter}, nil
	}
	return ctrl.Result{RequeueAfter: todo.Again}, failed
}

// read reads what decides about the objects of a namespace, and its HTTPScaledObjects.
func (a *Autowirer) read(
	ctx context.Context, name string,
) (namespace autowire.Namespace, scaled []httpv1alpha1.HTTPScaledObject, err error) {
	var all httpv1alpha1.HTTPScaledObjectList
	var services corev1.ServiceList
	inside := client.InNamespace(name)
	proxies, err := a.proxies(ctx, name)
	err = errors.Join(err, a.Client.List(ctx, &all, inside), a.Client.List(ctx, &services, inside))
	if err != nil {
		return namespace, nil, fmt.Errorf("read namespace %s: %w", name, err)
	}
	namespace = autowire.Namespace{Ports: map[string][]corev1.ServicePort{}, Now: a.Now(), CoolDown: a.CoolDown}
	for i := range services.Items {
		service := &services.Items[i]
		namespace.Ports[service.Name] = service.Spec.Ports
		if service.Name == autowire.ProxyService {
			proxies.Service = service
		}
	}
	namespace.Name = name
	a.keep(name, &proxies, len(all.Items) > 0 || name == a.Shared)
	namespace.HasProxy, namespace.HasTLSProxy = proxies.Serve(autowire.ProxyPort), proxies.Serve(autowire.TLSPort)
	if namespace.Shared, err = a.shared(ctx); err != nil {
		return namespace, nil, err
	}
	for i := range all.Items {
		stands, err := a.stands(ctx, &all.Items[i])
		if err != nil {
			return namespace, nil, err
		}
		if target, isTarget := autowire.TargetOf(&all.Items[i]); isTarget && stands && !a.IsOff {
			target.IsShared = target.IsShared && name != a.Shared // else it is its own
			namespace.Targets = append(namespace.Targets, target)
		}
	}
	return namespace, all.Items, nil
}

// keep keeps connections to the proxies of a namespace as long as backends may go there, and takes note of those that have ended.
func (a *Autowirer) keep(namespace string, proxies *autowire.Proxies, areUsed bool) {
	if a.Keep == nil {
		return
	}
	var ready []netip.AddrPort
	if areUsed && !a.IsOff {
		ready = proxies.Ready(autowire.ProxyPort)
	}
	proxies.Gone = a.Keep(namespace, ready)
}

// proxies reads what says whether a namespace has proxies, but for their Service.
func (a *Autowirer) proxies(ctx context.Context, namespace string) (found autowire.Proxies, err error) {
	var endpoints discoveryv1.EndpointSliceList
	err = a.Client.List(ctx, &endpoints, client.InNamespace(namespace),
		client.MatchingLabels{discoveryv1.LabelServiceName: autowire.ProxyService})
	found.Endpoints = endpoints.Items
	deployment := new(appsv1.Deployment)
	key := types.NamespacedName{Namespace: namespace, Name: autowire.ProxyService}
	switch missing := a.Client.Get(ctx, key, deployment); {
	case missing == nil:
		found.Deployment = deployment
	case !apierrors.IsNotFound(missing):
		err = errors.Join(err, missing)
	}
	return found, err
}

// objects reads the Ingresses and HTTPRoutes of a namespace into it, and returns them in their order there.
func (a *Autowirer) objects(
	ctx context.Context, name string, into *autowire.Namespace,
) (found []client.Object, err error) {
	var ingresses networkingv1.IngressList
	var routes apis.HTTPRouteList
	var rollouts apis.RolloutList
	inside := client.InNamespace(name)
	if err = a.Client.List(ctx, &ingresses, inside); err == nil && a.IsServed(apis.HTTPRouteKind()) {
		err = a.Client.List(ctx, &routes, inside)
	}
	if err == nil && len(routes.Items) > 0 && a.IsServed(apis.RolloutKind()) {
		err = a.Client.List(ctx, &rollouts, client.UnsafeDisableDeepCopy) // a Rollout may name routes elsewhere
	}
	if err != nil {
		return nil, fmt.Errorf("read namespace %s: %w", name, err)
	}
	for i := range ingresses.Items {
		found = append(found, &ingresses.Items[i])
		into.Objects = append(into.Objects, autowire.OfIngress(&ingresses.Items[i]))
	}
	routings := autowire.RoutingsOf(rollouts.Items...)
	for i := range routes.Items {
		found = append(found, &routes.Items[i])
		into.Objects = append(into.Objects, autowire.OfHTTPRoute(&routes.Items[i], routings))
	}
	return found, nil
}

// stands says whether an HTTPScaledObject is not about to go with its ScaledObject or its trigger.
func (a *Autowirer) stands(ctx context.Context, object *httpv1alpha1.HTTPScaledObject) (bool, error) {
	owner := ownerOf(object)
	if owner == nil {
		return true, nil
	}
	scaled, key := new(apis.ScaledObject), types.NamespacedName{Namespace: object.Namespace, Name: owner[0]}
	switch err := a.Client.Get(ctx, key, scaled); {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read ScaledObject %s: %w", key, err)
	}
	isNamed := slices.Contains(desired.Names(scaled, a.ScalerAddress), object.Name)
	return scaled.DeletionTimestamp == nil && (isNamed || desired.Keeps(scaled, a.ScalerAddress)), nil
}

// write makes a change, unless the object has changed since it was read.
func (a *Autowirer) write(ctx context.Context, object client.Object, change autowire.Change) error {
	text, err := json.Marshal(change.At(object.GetResourceVersion()))
	if err != nil {
		return err
	}
	err = a.Client.Patch(ctx, object, client.RawPatch(types.JSONPatchType, text), fieldOwner)
	switch {
	case err == nil && change.Reason != "":
		a.Events.Event(object, corev1.EventTypeNormal, change.Reason, truncate.Text(change.Message, maxEvent))
	case apierrors.IsInvalid(err) && outdated(ctx, a.Stored, object):
		return nil // the version that is stored now comes by the watch
	case err != nil && !apierrors.IsConflict(err):
		a.Events.Event(object, corev1.EventTypeWarning, httpv1alpha1.ReasonRefused,
			truncate.Text(err.Error(), maxEvent))
	}
	return err
}

// report writes the conditions of HTTPScaledObjects, and removes those of which nothing is to be said.
func (a *Autowirer) report(
	ctx context.Context, scaled []httpv1alpha1.HTTPScaledObject, conditions map[string]metav1.Condition,
) (failed error) {
	for i := range scaled {
		object := &scaled[i]
		before := meta.FindStatusCondition(object.Status.Conditions, httpv1alpha1.ConditionAutowired)
		var want []metav1.Condition
		if condition, has := conditions[object.Name]; has {
			want = []metav1.Condition{condition}
		}
		if object.DeletionTimestamp != nil || before == nil && want == nil ||
			want != nil && desired.HasConditions(object.Status.Conditions, want) {
			continue
		}
		err := a.conditions.put(ctx, a.Client, autowireOwner, a.Now(), object, want)
		if client.IgnoreNotFound(err) != nil {
			name := client.ObjectKeyFromObject(object)
			failed = errors.Join(failed, fmt.Errorf("write the condition of HTTPScaledObject %s: %w", name, err))
		}
		if err == nil && want != nil && isWorse(before, &want[0]) {
			a.Events.Event(object, corev1.EventTypeWarning, want[0].Reason, truncate.Text(want[0].Message, maxEvent))
		}
	}
	return failed
}

// isWorse says whether a condition says something new that somebody should know.
func isWorse(before, after *metav1.Condition) bool {
	isUsual := after.Status == metav1.ConditionTrue || after.Reason == httpv1alpha1.ReasonNothingToWire ||
		after.Reason == httpv1alpha1.ReasonNotProgrammed
	return !isUsual && (before == nil || before.Reason != after.Reason)
}
