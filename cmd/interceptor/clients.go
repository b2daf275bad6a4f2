package main

import (
	"fmt"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	discoveryv1client "k8s.io/client-go/kubernetes/typed/discovery/v1"
	eventsv1client "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/router/connect"
	"github.com/kedify/argo-rollouts-plugin/internal/status"
)

// requestTimeout bounds the requests of clients that do not watch, beside the deadlines of the callers.
const requestTimeout = 10 * time.Second

// clients are the ways to the API server, one connection in all.
type clients struct {
	scaledObjects *rest.RESTClient
	core          *corev1client.CoreV1Client
	discovery     *discoveryv1client.DiscoveryV1Client
	leases        *coordinationv1client.CoordinationV1Client
	events        *eventsv1client.EventsV1Client
}

// newClients makes the clients. The API server is not asked anything yet.
func newClients(kubeconfig string) (clients, error) {
	config, err := connect.Config(kubeconfig, rest.DefaultKubernetesUserAgent()+" "+program)
	if err != nil {
		return clients{}, err
	}
	var all clients
	if all.scaledObjects, err = scaledObjectClient(config); err != nil {
		return clients{}, err
	}
	// The built-in kinds have a binary form, which is a fraction of the work to read.
	binary := rest.CopyConfig(config)
	binary.ContentType = runtime.ContentTypeProtobuf
	binary.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if all.core, err = corev1client.NewForConfig(binary); err != nil {
		return clients{}, fmt.Errorf("client for Services and Pods: %w", err)
	}
	if all.discovery, err = discoveryv1client.NewForConfig(binary); err != nil {
		return clients{}, fmt.Errorf("client for EndpointSlices: %w", err)
	}
	brief := rest.CopyConfig(binary)
	brief.Timeout = requestTimeout
	if all.leases, err = coordinationv1client.NewForConfig(brief); err != nil {
		return clients{}, fmt.Errorf("client for Leases: %w", err)
	}
	if all.events, err = eventsv1client.NewForConfig(brief); err != nil {
		return clients{}, fmt.Errorf("client for Events: %w", err)
	}
	return all, nil
}

// scaledObjectClient returns a client that knows HTTPScaledObjects and nothing else.
func scaledObjectClient(config *rest.Config) (*rest.RESTClient, error) {
	scheme := runtime.NewScheme()
	if err := httpv1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register HTTPScaledObject: %w", err)
	}
	config = rest.CopyConfig(config)
	config.APIPath = "/apis"
	config.GroupVersion = &httpv1alpha1.SchemeGroupVersion
	config.ContentType = runtime.ContentTypeJSON
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client for HTTPScaledObjects: %w", err)
	}
	return client, nil
}

// What is watched for reports: the Pods with the label of proxies, and the EndpointSlices of the Service that all replicas of the interceptor are behind.
const (
	proxyLabels     = "app=kedify-proxy"
	replicasService = "keda-add-ons-http-interceptor-admin"
)

// sources returns the lists and watches that chosen asks for: of the named namespaces, of all if none is named.
func (c clients) sources(chosen settings) ingest.Sources {
	namespaces := chosen.namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	core, discovery := c.core.RESTClient(), c.discovery.RESTClient()
	sources := ingest.Sources{Replicas: []cache.ListerWatcherWithContext{
		listWatch(discovery, "endpointslices", chosen.podNamespace, discoveryv1.LabelServiceName+"="+replicasService),
	}}
	for _, namespace := range namespaces {
		sources.ScaledObjects = append(sources.ScaledObjects, listWatch(c.scaledObjects, httpv1alpha1.Resource, namespace, ""))
		sources.Services = append(sources.Services, listWatch(core, "services", namespace, ""))
		sources.EndpointSlices = append(sources.EndpointSlices, listWatch(discovery, "endpointslices", namespace, ""))
	}
	if chosen.fleet == fleetShared {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, namespace := range namespaces {
		sources.Proxies = append(sources.Proxies, listWatch(core, "pods", namespace, proxyLabels))
	}
	return sources
}

// listWatch lists and watches the objects that have labels, all if that is empty.
func listWatch(client rest.Interface, resource, namespace, labels string) cache.ListerWatcherWithContext {
	return cache.NewFilteredListWatchFromClient(client, resource, namespace, func(options *metav1.ListOptions) { options.LabelSelector = labels })
}

// statusClient returns the client that writes statuses.
func (c clients) statusClient() status.Client { return status.NewClient(c.scaledObjects, c.events) }
