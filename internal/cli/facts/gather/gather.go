package gather

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/install/manifests"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
)

const (
	// requestTimeout bounds one request.
	requestTimeout = 10 * time.Second
	// pageSize is the maximum number of objects in a list response.
	pageSize = "500"
)

// Reader reads a cluster.
type Reader struct {
	client    *kube.Client
	namespace string // the namespace of applications; empty for all
}

// New returns a Reader for the applications in one namespace, or in all namespaces if it is empty.
func New(client *kube.Client, namespace string) *Reader {
	return &Reader{client: client, namespace: namespace}
}

// step reads one resource into the facts.
type step struct {
	resource facts.Resource
	read     func(context.Context, *facts.Facts) error
}

// readSteps runs steps in order. It passes errors to failed, and stops at the first error that failed returns.
func readSteps(ctx context.Context, cluster *facts.Facts, steps []step,
	failed func(facts.Resource, error) error,
) error {
	for _, step := range steps {
		if err := step.read(ctx, cluster); err != nil {
			if err := failed(step.resource, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// All reads all facts about an installation except permissions. It fails only if the API server is unreachable or
// rejects the user's credentials.
func (r *Reader) All(ctx context.Context) (*facts.Facts, error) {
	if err := r.checkConnection(ctx); err != nil {
		return nil, err
	}
	cluster := &facts.Facts{Now: time.Now(), CRDs: map[string]facts.CRD{}}
	steps := append(r.controllerSteps(), step{facts.Deployments, r.proxies}, step{facts.Nodes, r.nodes},
		step{facts.CRDs, r.crds}, step{facts.Webhook, r.webhook}, step{facts.CA, r.ca})
	// Rollouts are read before the objects that they depend on: objects that exist for a weight existed before it.
	steps = append(steps, step{facts.Rollouts, r.rollouts}, step{facts.HTTPScaledObjects, r.httpScaledObjects},
		step{facts.Routes, r.routes}, step{facts.Services, r.services}, step{facts.EndpointSlices, r.endpoints},
		step{facts.ScaledObjects, r.scaledObjects}, step{facts.Autoscalers, r.autoscalers})
	err := readSteps(ctx, cluster, steps, func(part facts.Resource, err error) error {
		recordError(cluster, part, err)
		return nil
	})
	return cluster, errors.Join(err, ctx.Err())
}

// controllerSteps read the Argo Rollouts controller and its plugins.
func (r *Reader) controllerSteps() []step {
	return []step{{facts.Deployments, r.deployments}, {facts.Plugins, r.plugins}, {facts.Pods, r.pods}}
}

// Controller reads the Argo Rollouts controller, its plugins and its nodes. It fails if any of them except the nodes
// cannot be read.
func (r *Reader) Controller(ctx context.Context) (*facts.Facts, error) {
	if err := r.checkConnection(ctx); err != nil {
		return nil, err
	}
	cluster := &facts.Facts{Now: time.Now()}
	err := readSteps(ctx, cluster, r.controllerSteps(), func(part facts.Resource, err error) error {
		return fmt.Errorf("%s cannot be read: %w", part, err)
	})
	if err != nil {
		return nil, err
	}
	if err := r.nodes(ctx, cluster); err != nil {
		recordError(cluster, facts.Nodes, err)
	}
	return cluster, nil
}

// ForCleanup reads the objects that Rollouts may have left data on. Rollouts are read last, so that a Rollout that is
// created in the meantime is seen. It fails if any resource cannot be read, because data of an unknown Rollout may be
// in use.
func (r *Reader) ForCleanup(ctx context.Context) (*facts.Facts, error) {
	if err := r.checkConnection(ctx); err != nil {
		return nil, err
	}
	cluster := &facts.Facts{Now: time.Now()}
	err := readSteps(ctx, cluster, []step{
		{facts.Lease, r.lease},
		{facts.Trials, r.trials},
		{facts.Deployments, r.deployments},
		{facts.HTTPScaledObjects, r.httpScaledObjects},
		{facts.InterceptorRoutes, r.interceptorRoutes},
		{facts.Routes, r.routes},
		{facts.Rollouts, r.rollouts},
	}, func(part facts.Resource, err error) error {
		return fmt.Errorf("%s cannot be read, so leftovers cannot be determined: %w", part, err)
	})
	if err != nil {
		return nil, err
	}
	return cluster, nil
}

// recordError records why a resource could not be read.
func recordError(cluster *facts.Facts, resource facts.Resource, err error) {
	if cluster.Unread == nil {
		cluster.Unread = map[facts.Resource]error{}
	}
	cluster.Unread[resource] = err
}

// checkConnection fails if the API server is unreachable or rejects the user's credentials.
func (r *Reader) checkConnection(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var version struct{}
	if err := r.client.Get(ctx, &version, "version"); err != nil && !apierrors.IsForbidden(err) {
		return fmt.Errorf("cannot connect to the API server: %w", err)
	}
	return nil
}

// list lists a collection page by page. Empty labels select all objects, an empty namespace all namespaces. If the API
// server does not serve the collection, the result is empty.
func list[T any](ctx context.Context, r *Reader, group, resource, namespace, labels string) ([]T, error) {
	path := strings.Split("apis/"+group, "/")
	if !strings.Contains(group, "/") {
		path = []string{"api", group}
	}
	if namespace != "" {
		path = append(path, "namespaces", namespace)
	}
	query := map[string]string{"limit": pageSize}
	if labels != "" {
		query["labelSelector"] = labels
	}
	var all []T
	for {
		var page struct {
			Metadata metav1.ListMeta `json:"metadata"`
			Items    []T             `json:"items"`
		}
		err := r.get(ctx, kube.Request{Path: append(path, resource), Query: maps.Clone(query)}, &page)
		switch {
		case apierrors.IsNotFound(err):
			return nil, nil
		case err != nil:
			return nil, err
		}
		all = append(all, page.Items...)
		if page.Metadata.Continue == "" {
			return all, nil
		}
		query["continue"] = page.Metadata.Continue
	}
}

// find reads the object at path, or nil if it does not exist.
func find[T any](ctx context.Context, r *Reader, path ...string) (*T, error) {
	object := new(T)
	err := r.get(ctx, kube.Request{Path: path}, object)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // nil means not found
	case err != nil:
		return nil, err
	}
	return object, nil
}

// get decodes the response to a request into target. It retries transient errors.
func (r *Reader) get(ctx context.Context, request kube.Request, target any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return kube.Retry(ctx, func(ctx context.Context) error {
		body, err := r.client.Do(ctx, request)
		if err != nil {
			return err
		}
		return json.Unmarshal(body, target)
	})
}

// deployments finds the Deployments of this project, Argo Rollouts, KEDA and the products that must not run next to this
// project, by the labels in their manifests and charts, in any namespace.
func (r *Reader) deployments(ctx context.Context, cluster *facts.Facts) error {
	items, err := list[appsv1.Deployment](ctx, r, "apps/v1", "deployments", "",
		facts.LabelName+" in (argo-rollouts,"+facts.ComponentsName+",keda-operator,"+facts.KedifyAgentName+")")
	cluster.Others = nil
	for i := range items {
		deployment := &items[i]
		if facts.OtherProduct(deployment) != "" {
			cluster.Others = append(cluster.Others, deployment)
		}
		switch facts.Component(deployment) {
		case "interceptor":
			cluster.Interceptor = deployment
		case "scaler":
			cluster.Scaler = deployment
		case "agent":
			cluster.Agent = deployment
		}
		switch deployment.Labels[facts.LabelName] {
		case "argo-rollouts":
			if deployment.Labels[facts.LabelComponent] == "rollouts-controller" {
				cluster.Controller = deployment
			}
		case "keda-operator":
			cluster.Operator = deployment
		}
	}
	return err
}

// proxies reads the Deployments of proxies in all namespaces.
func (r *Reader) proxies(ctx context.Context, cluster *facts.Facts) error {
	items, err := list[appsv1.Deployment](ctx, r, "apps/v1", "deployments", "", "app="+facts.ProxyService)
	cluster.Proxies = map[string]*appsv1.Deployment{}
	for i := range items {
		if items[i].Name == facts.ProxyService {
			cluster.Proxies[items[i].Namespace] = &items[i]
		}
	}
	return err
}

// plugins reads the controller's ConfigMap.
func (r *Reader) plugins(ctx context.Context, cluster *facts.Facts) (err error) {
	if cluster.Controller == nil {
		return nil
	}
	cluster.Plugins, err = find[corev1.ConfigMap](ctx, r,
		"api", "v1", "namespaces", cluster.Controller.Namespace, "configmaps", facts.ConfigMapName)
	return err
}

// ca reads the ConfigMap with the CAs of the interceptor.
func (r *Reader) ca(ctx context.Context, cluster *facts.Facts) (err error) {
	if cluster.Interceptor == nil {
		return nil
	}
	cluster.CA, err = find[corev1.ConfigMap](ctx, r,
		"api", "v1", "namespaces", cluster.Interceptor.Namespace, "configmaps", httpv1alpha1.InterceptorCA)
	return err
}

// pods reads the controller's Pods.
func (r *Reader) pods(ctx context.Context, cluster *facts.Facts) (err error) {
	if cluster.Controller == nil {
		return nil
	}
	labels := metav1.FormatLabelSelector(cluster.Controller.Spec.Selector)
	cluster.Pods, err = list[corev1.Pod](ctx, r, "v1", "pods", cluster.Controller.Namespace, labels)
	return err
}

func (r *Reader) nodes(ctx context.Context, cluster *facts.Facts) (err error) {
	cluster.Nodes, err = list[corev1.Node](ctx, r, "v1", "nodes", "", "")
	return err
}

func (r *Reader) rollouts(ctx context.Context, cluster *facts.Facts) error {
	items, err := list[v1alpha1.Rollout](ctx, r, "argoproj.io/v1alpha1", "rollouts", r.namespace, "")
	cluster.Rollouts = nil
	for i := range items {
		cluster.Rollouts = append(cluster.Rollouts, ParseRollout(&items[i]))
	}
	return err
}

func (r *Reader) httpScaledObjects(ctx context.Context, cluster *facts.Facts) (err error) {
	version := httpv1alpha1.SchemeGroupVersion.String()
	cluster.HTTPScaledObjects, err = list[httpv1alpha1.HTTPScaledObject](ctx, r, version, httpv1alpha1.Resource,
		r.namespace, "")
	cluster.Owners = ownersOf(cluster.HTTPScaledObjects)
	cluster.InterceptorRoutes = nil
	// Most installations have no InterceptorRoute, and users without the permission to list them.
	if slices.ContainsFunc(cluster.Rollouts, func(r facts.Rollout) bool { return r.InterceptorRoute != "" }) {
		err = errors.Join(err, r.interceptorRoutes(ctx, cluster))
	}
	return err
}

// ownersOf returns the owners of the weights of objects with an owner annotation.
func ownersOf(objects []httpv1alpha1.HTTPScaledObject) map[types.NamespacedName]facts.Owner {
	owners := map[types.NamespacedName]facts.Owner{}
	for _, object := range objects {
		text := object.Annotations[httpv1alpha1.AnnotationWeightedBackendsOwner]
		if rollout, uid, ok := httpso.OwnerOf(text, object.Namespace); ok {
			name := types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
			owners[name] = facts.Owner{Rollout: rollout, UID: uid}
		}
	}
	return owners
}

// interceptorRoutes reads the InterceptorRoutes.
func (r *Reader) interceptorRoutes(ctx context.Context, cluster *facts.Facts) error {
	cluster.InterceptorRoutes = nil
	version := httpv1beta1.SchemeGroupVersion.String()
	routes, err := list[httpv1beta1.InterceptorRoute](ctx, r, version, httpv1beta1.Resource, r.namespace, "")
	for i := range routes {
		cluster.InterceptorRoutes = append(cluster.InterceptorRoutes, facts.NewInterceptorRoute(&routes[i]))
	}
	cluster.RouteOwners = ownersOf(cluster.InterceptorRoutes)
	return err
}

// lease reads the Lease of the interceptors at its default location.
func (r *Reader) lease(ctx context.Context, cluster *facts.Facts) (err error) {
	cluster.Lease, err = find[coordinationv1.Lease](ctx, r, "apis", "coordination.k8s.io", "v1",
		"namespaces", httpv1alpha1.DefaultInterceptorNamespace, "leases", httpv1alpha1.DefaultInterceptorLease)
	return err
}

// trials reads the namespaces of throwaway canaries, unless the Reader is for one namespace.
func (r *Reader) trials(ctx context.Context, cluster *facts.Facts) (err error) {
	if r.namespace == "" {
		labels := manifests.LabelManagedBy + "=" + manifests.ManagedBy + "," + facts.TrialLabel
		cluster.Trials, err = list[metav1.PartialObjectMetadata](ctx, r, "v1", "namespaces", "", labels)
	}
	return err
}

func (r *Reader) scaledObjects(ctx context.Context, cluster *facts.Facts) (err error) {
	cluster.ScaledObjects, err = list[facts.ScaledObject](ctx, r, "keda.sh/v1alpha1", "scaledobjects", r.namespace, "")
	return err
}

func (r *Reader) autoscalers(ctx context.Context, cluster *facts.Facts) (err error) {
	const resource = "horizontalpodautoscalers"
	cluster.Autoscalers, err = list[autoscalingv2.HorizontalPodAutoscaler](ctx, r, "autoscaling/v2", resource,
		r.namespace, "")
	return err
}

// webhook reads the agent's webhook, which may exist without the agent. It is not read if neither the agent nor KEDA is
// installed.
func (r *Reader) webhook(ctx context.Context, cluster *facts.Facts) (err error) {
	if _, isDefined := cluster.CRDs[facts.ScaledObjectsCRD]; cluster.Agent == nil && !isDefined {
		return nil
	}
	cluster.Webhook, err = find[admissionregistrationv1.MutatingWebhookConfiguration](ctx, r,
		"apis", "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", facts.AgentName)
	return err
}

// services reads the Services of applications and of the components that serve them.
func (r *Reader) services(ctx context.Context, cluster *facts.Facts) error {
	cluster.Services = map[types.NamespacedName]*corev1.Service{}
	for _, namespace := range r.namespaces(cluster) {
		items, err := list[corev1.Service](ctx, r, "v1", "services", namespace, "")
		if err != nil {
			return err
		}
		for i := range items {
			cluster.Services[types.NamespacedName{Namespace: items[i].Namespace, Name: items[i].Name}] = &items[i]
		}
	}
	return nil
}

// endpoints counts the ready endpoints of the same Services.
func (r *Reader) endpoints(ctx context.Context, cluster *facts.Facts) error {
	var all []discoveryv1.EndpointSlice
	for _, namespace := range r.namespaces(cluster) {
		items, err := list[discoveryv1.EndpointSlice](ctx, r, "discovery.k8s.io/v1", "endpointslices", namespace, "")
		if err != nil {
			return err
		}
		all = append(all, items...)
	}
	cluster.ReadyEndpoints = countReady(slices.Values(all))
	return nil
}

// countReady counts the ready endpoints of each Service. An absent condition means ready (discovery.k8s.io/v1,
// EndpointConditions). An endpoint may be in two slices temporarily.
func countReady(all iter.Seq[discoveryv1.EndpointSlice]) map[types.NamespacedName]int {
	addresses := map[types.NamespacedName]map[string]bool{}
	for slice := range all {
		service := types.NamespacedName{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}
		for _, endpoint := range slice.Endpoints {
			if isReady := endpoint.Conditions.Ready; len(endpoint.Addresses) > 0 && (isReady == nil || *isReady) {
				if addresses[service] == nil {
					addresses[service] = map[string]bool{}
				}
				addresses[service][endpoint.Addresses[0]] = true
			}
		}
	}
	counts := map[types.NamespacedName]int{}
	for service, ready := range addresses {
		counts[service] = len(ready)
	}
	return counts
}

// namespaces returns the namespaces whose Services are read; an empty name means all.
func (r *Reader) namespaces(cluster *facts.Facts) []string {
	if r.namespace == "" {
		return []string{""}
	}
	all := []string{r.namespace}
	for _, part := range []*appsv1.Deployment{cluster.Interceptor, cluster.Agent} {
		if part != nil && !slices.Contains(all, part.Namespace) {
			all = append(all, part.Namespace)
		}
	}
	return all
}
