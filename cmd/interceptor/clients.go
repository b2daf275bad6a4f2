package main

import (
	"fmt"
	"time"

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
		return clients{}, fmt.Errorf("client for Services: %w", err)
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

// sources returns the lists and watches of the namespaces, of all if none is named.
func (c clients) sources(namespaces []string) ingest.Sources {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	var sources ingest.Sources
	for _, namespace := range namespaces {
		all := func(client rest.Interface, resource string) cache.ListerWatcherWithContext {
			return cache.NewFilteredListWatchFromClient(client, resource, namespace, func(*metav1.ListOptions) {})
		}
		sources.ScaledObjects = append(sources.ScaledObjects, all(c.scaledObjects, httpv1alpha1.Resource))
		sources.Services = append(sources.Services, all(c.core.RESTClient(), "services"))
		sources.EndpointSlices = append(sources.EndpointSlices, all(c.discovery.RESTClient(), "endpointslices"))
	}
	return sources
}

// statusClient returns the client that writes statuses.
func (c clients) statusClient() status.Client { return status.NewClient(c.scaledObjects, c.events) }
