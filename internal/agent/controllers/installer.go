package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/proxies"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/truncate"
)

// installerOwner is the field manager of the condition that the Installer writes.
const installerOwner = fieldOwner + "-proxies"

// Names of what the proxies of a namespace are made of, beside their Deployment, Service and
// PodDisruptionBudget, whose name is proxies.Service.
const (
	proxyAdmin     = "kedify-proxy-admin"
	proxyBootstrap = "kedify-proxy-bootstrap"
)

// Installer keeps the proxies of namespaces as package proxies decides. It is a reconcile.Reconciler whose requests
// name namespaces; Register has controller-runtime call it.
type Installer struct {
	// Client reads from a cache with what InstallerCache says, and writes.
	Client client.Client
	// Stored reads without a cache.
	Stored client.Reader
	// Events takes the Events on Namespaces, ScaledObjects and HTTPScaledObjects.
	Events record.EventRecorder
	// Now is the clock.
	Now func() time.Time
	// Settings are those of every namespace without its own. Its InterceptorNamespace is that of the shared fleet.
	Settings proxies.Settings
	// Delay is how long proxies that nothing needs are kept.
	Delay time.Duration
	// Namespaces are those that have proxies installed; none means all.
	Namespaces []string
	// IsServed says whether the API server is known to have a kind that need not be installed: HTTPRoutes. Register
	// sets it.
	IsServed func(schema.GroupVersionKind) bool

	conditions place
}

// Reconcile makes the proxies of a namespace, which the request names, what they should be.
func (i *Installer) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	namespace := new(corev1.Namespace)
	err := i.Client.Get(ctx, types.NamespacedName{Name: request.Name}, namespace)
	if apierrors.IsNotFound(err) || err == nil && namespace.DeletionTimestamp != nil {
		return ctrl.Result{}, nil // it all goes with the namespace, and nothing can be made there
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("read Namespace %s: %w", request.Name, err)
	}
	facts, needing, err := i.read(ctx, namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	todo, err := facts.Plan()
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("proxies of namespace %s: %w", request.Name, err)
	}
	failed := i.carryOut(ctx, todo)
	switch {
	case apierrors.IsConflict(failed):
		return ctrl.Result{RequeueAfter: retryAfter}, nil
	case apierrors.HasStatusCause(failed, corev1.NamespaceTerminatingCause):
		return ctrl.Result{}, nil
	case failed != nil:
		todo.Condition = proxies.Refused(failed)
	}
	failed = errors.Join(failed, i.report(ctx, namespace, needing, todo.Condition))
	return ctrl.Result{RequeueAfter: todo.Again}, failed
}

// read reads what decides about the proxies of a namespace, and the HTTPScaledObjects that need them.
func (i *Installer) read(ctx context.Context, namespace *corev1.Namespace) (
	facts proxies.Namespace, needing []httpv1alpha1.HTTPScaledObject, err error,
) {
	var scaled httpv1alpha1.HTTPScaledObjectList
	var endpoints discoveryv1.EndpointSliceList
	inside := client.InNamespace(namespace.Name)
	where := []client.ListOption{inside}
	if namespace.Name == i.Settings.InterceptorNamespace { // whose proxies are the shared fleet
		where = nil
	}
	ofProxy := client.MatchingLabels{discoveryv1.LabelServiceName: proxies.Service}
	isWired, err := i.isWired(ctx, namespace.Name)
	err = errors.Join(err, i.Client.List(ctx, &scaled, where...), i.Client.List(ctx, &endpoints, inside, ofProxy))
	if err != nil {
		return facts, nil, fmt.Errorf("read namespace %s: %w", namespace.Name, err)
	}
	facts = proxies.Namespace{
		Name: namespace.Name, Annotations: namespace.Annotations, Settings: i.Settings, Delay: i.Delay, Now: i.Now(),
		IsWired: isWired,
	}
	for _, object := range scaled.Items {
		if proxies.Needs(&object) && proxies.Fleet(&object, i.Settings.InterceptorNamespace) == namespace.Name {
			needing = append(needing, object)
		}
	}
	facts.IsNeeded = len(needing) > 0
	for _, slice := range endpoints.Items {
		facts.HasEndpoints = facts.HasEndpoints || len(slice.Endpoints) > 0
	}
	facts.Found, err = i.installed(ctx, namespace.Name)
	if err == nil {
		facts.Autoscaler, err = i.autoscaler(ctx, namespace.Name)
	}
	return facts, needing, err
}

// autoscaler reads the ScaledObject of the proxies of a namespace, whole: the cache keeps of ScaledObjects what triggers are read for.
func (i *Installer) autoscaler(ctx context.Context, namespace string) (*unstructured.Unstructured, error) {
	key := types.NamespacedName{Namespace: namespace, Name: proxies.Service}
	err := i.Client.Get(ctx, key, new(apis.ScaledObject))
	found := new(unstructured.Unstructured)
	if err == nil {
		found.SetGroupVersionKind(apis.ScaledObjectKind())
		err = i.Stored.Get(ctx, key, found)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // There is none.
	case err != nil:
		return nil, fmt.Errorf("read ScaledObject %s: %w", key, err)
	}
	return found, nil
}

// isWired says whether an Ingress or an HTTPRoute has backends that the Autowirer points at the proxies of a namespace. At the shared fleet
// HTTPRoutes of every namespace may be pointed.
func (i *Installer) isWired(ctx context.Context, namespace string) (bool, error) {
	var ingresses networkingv1.IngressList
	var routes apis.HTTPRouteList
	inside := client.InNamespace(namespace)
	where := []client.ListOption{inside}
	if namespace == i.Settings.InterceptorNamespace {
		where = []client.ListOption{client.UnsafeDisableDeepCopy}
	}
	err := i.Client.List(ctx, &ingresses, inside)
	if err == nil && i.IsServed(apis.HTTPRouteKind()) {
		err = i.Client.List(ctx, &routes, where...)
	}
	return slices.ContainsFunc(ingresses.Items, func(ingress networkingv1.Ingress) bool { return hasUndo(&ingress) }) ||
		slices.ContainsFunc(routes.Items, func(route apis.HTTPRoute) bool {
			return hasUndo(&route) && slices.Contains(autowire.ProxyNamespaces(&route), namespace)
		}), err
}

// hasUndo says whether the Autowirer has something to undo on an object.
func hasUndo(object client.Object) bool {
	return object.GetAnnotations()[httpv1alpha1.AnnotationAutowireUndo] != ""
}

// installed reads the objects of a namespace that have the names of those that proxies are made of.
func (i *Installer) installed(ctx context.Context, namespace string) ([]*unstructured.Unstructured, error) {
	in := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }
	var found []*unstructured.Unstructured
	for _, object := range []client.Object{
		&corev1.ConfigMap{ObjectMeta: in(proxyBootstrap)},
		&corev1.Service{ObjectMeta: in(proxies.Service)},
		&corev1.Service{ObjectMeta: in(proxyAdmin)},
		&policyv1.PodDisruptionBudget{ObjectMeta: in(proxies.Service)},
		&appsv1.Deployment{ObjectMeta: in(proxies.Service)},
	} {
		kind, err := apiutil.GVKForObject(object, i.Client.Scheme())
		if err != nil {
			return nil, err
		}
		switch err := i.Client.Get(ctx, client.ObjectKeyFromObject(object), object); {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return nil, fmt.Errorf("read %s %s/%s: %w", kind.Kind, namespace, object.GetName(), err)
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return nil, fmt.Errorf("read %s %s/%s: %w", kind.Kind, namespace, object.GetName(), err)
		}
		one := &unstructured.Unstructured{Object: content}
		one.SetGroupVersionKind(kind)
		found = append(found, one)
	}
	return found, nil
}

// carryOut applies and deletes objects, in order, up to the first that fails. One that is new is applied without
// force: should somebody have created another at this moment, that is a conflict, and nothing is taken over.
func (i *Installer) carryOut(ctx context.Context, todo proxies.Plan) error {
	log := ctrl.LoggerFrom(ctx)
	for _, object := range todo.Apply {
		text, err := object.MarshalJSON()
		if err != nil {
			return err
		}
		options := []client.PatchOption{fieldOwner}
		if object.GetUID() != "" {
			options = append(options, client.ForceOwnership)
		}
		written := object.DeepCopy()
		if err := i.Client.Patch(ctx, written, client.RawPatch(types.ApplyPatchType, text), options...); err != nil {
			return fmt.Errorf("write %s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
		}
		log.Info("applied", "kind", object.GetKind(), "name", object.GetName())
	}
	for _, object := range todo.Delete {
		uid, version := object.GetUID(), object.GetResourceVersion()
		err := i.Client.Delete(ctx, object, client.Preconditions{UID: &uid, ResourceVersion: &version},
			client.PropagationPolicy(metav1.DeletePropagationBackground))
		if err := client.IgnoreNotFound(err); err != nil {
			return fmt.Errorf("delete %s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
		}
		log.Info("deleted", "kind", object.GetKind(), "name", object.GetName())
	}
	return nil
}

// report writes a condition, or that there is none, on the HTTPScaledObjects that need the proxies, and an Event
// where it is new: on the Namespace about its annotations, else on the ScaledObject of each.
func (i *Installer) report(
	ctx context.Context, namespace *corev1.Namespace,
	needing []httpv1alpha1.HTTPScaledObject, condition *metav1.Condition,
) (failed error) {
	isTold := false
	for index := range needing {
		object := &needing[index]
		before := meta.FindStatusCondition(object.Status.Conditions, httpv1alpha1.ConditionProxyInstalled)
		var want []metav1.Condition
		if condition != nil {
			want = []metav1.Condition{*condition}
		}
		if before == nil && want == nil || want != nil && desired.HasConditions(object.Status.Conditions, want) {
			continue
		}
		err := i.conditions.put(ctx, i.Client, installerOwner, i.Now(), object, want)
		if client.IgnoreNotFound(err) != nil {
			name := client.ObjectKeyFromObject(object)
			failed = errors.Join(failed, fmt.Errorf("write the condition of HTTPScaledObject %s: %w", name, err))
		}
		if err != nil || condition == nil {
			continue
		}
		about := i.owner(ctx, object)
		if condition.Reason == httpv1alpha1.ReasonInvalidProxySettings {
			if isTold {
				continue
			}
			about, isTold = namespace, true
		}
		kind := corev1.EventTypeWarning
		if condition.Status == metav1.ConditionTrue {
			kind = corev1.EventTypeNormal
		}
		i.Events.Event(about, kind, condition.Reason, truncate.Text(condition.Message, maxEvent))
	}
	return failed
}

// owner is the ScaledObject that an HTTPScaledObject was made from, or else the object itself.
func (i *Installer) owner(ctx context.Context, object *httpv1alpha1.HTTPScaledObject) client.Object {
	for _, name := range ownerOf(object) {
		scaled := new(apis.ScaledObject)
		if i.Client.Get(ctx, types.NamespacedName{Namespace: object.Namespace, Name: name}, scaled) == nil {
			return scaled
		}
	}
	return object
}
