package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/page"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/envoysettings"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status/peers"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// requestTimeout bounds the requests of clients that do not watch, in addition to the deadlines of the callers.
const requestTimeout = 10 * time.Second

// clients are REST clients of the API server, which share one connection. The typed clients of client-go would link
// every API group, which takes 11 MB of resident memory.
type clients struct {
	scaledObjects, interceptorRoutes, core, discovery, leases, events, tokens, dashboard *rest.RESTClient
}

// newClients creates the clients. It sends no request.
func newClients(kubeconfig string) (clients, error) {
	config, err := kube.Config(kubeconfig, rest.DefaultKubernetesUserAgent()+" "+program)
	if err != nil {
		return clients{}, err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		httpv1alpha1.AddToScheme, httpv1beta1.AddToScheme, corev1.AddToScheme, discoveryv1.AddToScheme,
		coordinationv1.AddToScheme, eventsv1.AddToScheme, authenticationv1.AddToScheme, authorizationv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return clients{}, fmt.Errorf("register kinds: %w", err)
		}
	}
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	// Built-in kinds have a binary encoding, which takes a fraction of the time to decode.
	binary := rest.CopyConfig(config)
	binary.ContentType = runtime.ContentTypeProtobuf
	binary.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.ContentType = runtime.ContentTypeJSON
	brief := rest.CopyConfig(binary)
	brief.Timeout = requestTimeout
	var all clients
	for _, entry := range []struct {
		client **rest.RESTClient
		config *rest.Config
		group  schema.GroupVersion
	}{
		{&all.scaledObjects, config, httpv1alpha1.SchemeGroupVersion},
		{&all.interceptorRoutes, config, httpv1beta1.SchemeGroupVersion},
		{&all.core, binary, corev1.SchemeGroupVersion},
		{&all.discovery, binary, discoveryv1.SchemeGroupVersion},
		{&all.leases, brief, coordinationv1.SchemeGroupVersion},
		{&all.events, brief, eventsv1.SchemeGroupVersion},
		{&all.tokens, brief, authenticationv1.SchemeGroupVersion},
		{&all.dashboard, brief, authorizationv1.SchemeGroupVersion},
	} {
		groupConfig := rest.CopyConfig(entry.config)
		groupConfig.GroupVersion, groupConfig.APIPath = &entry.group, "/apis"
		if entry.group.Group == corev1.GroupName {
			groupConfig.APIPath = "/api"
		}
		if *entry.client, err = rest.RESTClientFor(groupConfig); err != nil {
			return clients{}, fmt.Errorf("client for %s: %w", entry.group, err)
		}
	}
	return all, nil
}

// proxyService is the Service of the port for health and queued requests.
const proxyService = "keda-add-ons-http-interceptor-proxy"

// sources returns the lists and watches for the chosen namespaces, all if there are none. They always include the
// shared proxies.
func (c clients) sources(chosen settings) ingest.Sources {
	newSlice := func() object { return new(discoveryv1.EndpointSlice) }
	newService := func() object { return new(corev1.Service) }
	newScaledObject := func() object { return new(httpv1alpha1.HTTPScaledObject) }
	newInterceptorRoute := func() object { return new(httpv1beta1.InterceptorRoute) }
	namespaces := chosen.namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	sources := ingest.Sources{Replicas: []cache.ListerWatcherWithContext{
		listWatch(c.discovery, newSlice, "endpointslices", chosen.podNamespace,
			discoveryv1.LabelServiceName+"="+peers.ServiceName),
	}}
	sources.ScaledObject, sources.InterceptorRoute = c.scaledObject, c.interceptorRoute
	if chosen.interceptorTLSSecret != "" {
		sources.Certificate = c.secret(model.Key{Namespace: chosen.podNamespace, Name: chosen.interceptorTLSSecret})
	}
	if chosen.translate.TLS {
		sources.Secret = c.secret
	}
	if chosen.waitingPages {
		sources.Page = c.page
	}
	if chosen.envoySettings {
		sources.GlobalSettings = c.configMap(chosen.podNamespace, envoysettings.GlobalName)
	}
	if len(chosen.namespaces) > 0 && !slices.Contains(chosen.namespaces, chosen.podNamespace) {
		sources.EndpointSlices = append(sources.EndpointSlices,
			listWatch(c.discovery, newSlice, "endpointslices", chosen.podNamespace,
				discoveryv1.LabelServiceName+"="+resolve.ProxyService))
		sources.Services = append(sources.Services, cache.NewListWatchFromClient(c.core, "services", chosen.podNamespace,
			fields.OneTermEqualSelector(metav1.ObjectNameField, resolve.ProxyService)))
	}
	maxBytes := resolve.Options{MaxObjects: chosen.maxObjects}.MaxObjectBytes()
	for _, namespace := range namespaces {
		routes := listWatch(c.interceptorRoutes, newInterceptorRoute, httpv1beta1.Resource, namespace, "")
		routes.maxBytes = maxBytes
		sources.InterceptorRoutes = append(sources.InterceptorRoutes, routes)
		scaledObjects := listWatch(c.scaledObjects, newScaledObject, httpv1alpha1.Resource, namespace, "")
		scaledObjects.maxBytes = maxBytes
		sources.ScaledObjects = append(sources.ScaledObjects, scaledObjects)
		sources.Services = append(sources.Services, listWatch(c.core, newService, "services", namespace, ""))
		sources.EndpointSlices = append(sources.EndpointSlices,
			listWatch(c.discovery, newSlice, "endpointslices", namespace, ""))
		if chosen.envoySettings {
			sources.Settings = append(sources.Settings, c.configMap(namespace, envoysettings.Name))
		}
	}
	return sources
}

// scaledObject returns a list and watch of one HTTPScaledObject.
func (c clients) scaledObject(key model.Key) cache.ListerWatcherWithContext {
	return cache.NewListWatchFromClient(c.scaledObjects, httpv1alpha1.Resource, key.Namespace,
		fields.OneTermEqualSelector(metav1.ObjectNameField, key.Name))
}

// interceptorRoute returns a list and watch of one InterceptorRoute.
func (c clients) interceptorRoute(key model.Key) cache.ListerWatcherWithContext {
	return cache.NewListWatchFromClient(c.interceptorRoutes, httpv1beta1.Resource, key.Namespace,
		fields.OneTermEqualSelector(metav1.ObjectNameField, key.Name))
}

// page returns a list and watch of one ConfigMap with the label of waiting pages.
func (c clients) page(key model.Key) cache.ListerWatcherWithContext {
	return cache.NewFilteredListWatchFromClient(c.core, "configmaps", key.Namespace, func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, key.Name).String()
		options.LabelSelector = page.Label + "=" + page.LabelValue
	})
}

// secret returns a list and watch of one Secret, which a Role can allow by the name of the Secret.
func (c clients) secret(key model.Key) cache.ListerWatcherWithContext {
	return cache.NewListWatchFromClient(c.core, "secrets", key.Namespace,
		fields.OneTermEqualSelector(metav1.ObjectNameField, key.Name))
}

// configMap returns a list and watch of the ConfigMaps with a name, in one namespace or in all.
func (c clients) configMap(namespace, name string) cache.ListerWatcherWithContext {
	return cache.NewListWatchFromClient(c.core, "configmaps", namespace,
		fields.OneTermEqualSelector(metav1.ObjectNameField, name))
}

// reviewToken lets the API server review a token.
func (c clients) reviewToken(
	ctx context.Context, review *authenticationv1.TokenReview,
) (*authenticationv1.TokenReview, error) {
	answer := new(authenticationv1.TokenReview)
	return answer, c.tokens.Post().Resource("tokenreviews").Body(review).Do(ctx).Into(answer)
}

// reviewAccess lets the API server review a permission.
func (c clients) reviewAccess(
	ctx context.Context, review *authorizationv1.SubjectAccessReview,
) (*authorizationv1.SubjectAccessReview, error) {
	answer := new(authorizationv1.SubjectAccessReview)
	return answer, c.dashboard.Post().Resource("subjectaccessreviews").Body(review).Do(ctx).Into(answer)
}

// get reads a path as JSON.
func (c clients) get(ctx context.Context, path string, query map[string]string) ([]byte, error) {
	request := c.dashboard.Get().AbsPath(path).SetHeader("Accept", runtime.ContentTypeJSON)
	for name, value := range query {
		request = request.Param(name, value)
	}
	return request.DoRaw(ctx)
}

// pod reads a Pod.
func (c clients) pod(ctx context.Context, key model.Key) (*corev1.Pod, error) {
	pod := new(corev1.Pod)
	return pod, c.core.Get().Namespace(key.Namespace).Resource("pods").Name(key.Name).Do(ctx).Into(pod)
}

// statusClient returns the client that writes statuses.
func (c clients) statusClient(logger *slog.Logger) status.Client {
	return status.NewClient(c.scaledObjects, c.interceptorRoutes, c.events, logger)
}
