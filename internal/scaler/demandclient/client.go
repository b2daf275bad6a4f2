package demandclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/endpoints"
)

const (
	// adminService is the Service in front of all replicas of the interceptor, and adminPort the name of its port.
	adminService = "keda-add-ons-http-interceptor-admin"
	adminPort    = "admin"
	// caKey is the key of the CAs in the ConfigMap, in PEM.
	caKey = httpv1alpha1.InterceptorCAKey
	// seedTimeout bounds the wait for the first reports after the replicas are known. The demand of a replica that has
	// not answered by then stays unknown, but the client counts as seeded.
	seedTimeout = 3 * time.Second
)

// Client is a Reader of all replicas of the interceptor, which it finds by the EndpointSlices of their admin Service.
type Client struct {
	*Reader

	slices cache.ListerWatcher
	ca     cache.ListerWatcher // the ConfigMap with the CAs; nil without TLS
	seeded chan struct{}
}

// Options are the settings of a Client.
type Options struct {
	// Namespace is that of the interceptors.
	Namespace string
	// CA is the name of the ConfigMap there with the CAs that sign their certificate, and TokenFile the file with the
	// token that they require. An empty CA means plain HTTP without a token.
	CA, TokenFile string
	// API is the configuration of clients of the API server.
	API *rest.Config
	// Logger logs replicas that do not respond.
	Logger *slog.Logger
}

// NewClient returns a Client. It connects to nothing before Run.
func NewClient(options Options) (*Client, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), discoveryv1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("register kinds: %w", err)
	}
	config := rest.CopyConfig(options.API)
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.GroupVersion, config.APIPath = &discoveryv1.SchemeGroupVersion, "/apis"
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client for EndpointSlices: %w", err)
	}
	made := &Client{seeded: make(chan struct{})}
	made.slices = cache.NewFilteredListWatchFromClient(client, "endpointslices", options.Namespace,
		func(selected *metav1.ListOptions) {
			selected.LabelSelector = discoveryv1.LabelServiceName + "=" + adminService
		})
	var security *Security
	if options.CA != "" {
		config.GroupVersion, config.APIPath = &corev1.SchemeGroupVersion, "/api"
		core, err := rest.RESTClientFor(config)
		if err != nil {
			return nil, fmt.Errorf("client for ConfigMaps: %w", err)
		}
		made.ca = cache.NewListWatchFromClient(core, "configmaps", options.Namespace,
			fields.OneTermEqualSelector(metav1.ObjectNameField, options.CA))
		security = &Security{Name: adminService + "." + options.Namespace + ".svc", TokenFile: options.TokenFile}
	}
	made.Reader = New(security, options.Logger)
	return made, nil
}

// followCA keeps the CAs up to date until ctx ends. The last ones stay in use if the ConfigMap is deleted.
func (c *Client) followCA(ctx context.Context) {
	update := func(object any) {
		if configMap, ok := object.(*corev1.ConfigMap); ok {
			c.security.SetCA(configMap.Data[caKey])
		}
	}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: c.ca, ObjectType: &corev1.ConfigMap{},
		Handler: cache.ResourceEventHandlerFuncs{AddFunc: update, UpdateFunc: func(_, after any) { update(after) }},
	})
	informer.RunWithContext(ctx)
}

// Seeded returns a channel that is closed once every replica has answered or failed to, or seedTimeout after the
// replicas are known.
func (c *Client) Seeded() <-chan struct{} { return c.seeded }

// Run follows the replicas and their reports until ctx ends.
func (c *Client) Run(ctx context.Context) error {
	var store cache.Store
	update := func() { c.SetReplicas(replicasIn(store)) }
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: c.slices,
		ObjectType:    &discoveryv1.EndpointSlice{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { update() }, UpdateFunc: func(any, any) { update() }, DeleteFunc: func(any) { update() },
		},
	})
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	if c.ca != nil {
		running.Go(func() { c.followCA(ctx) })
	}
	running.Go(func() { c.seed(ctx, informer.HasSynced) })
	c.Reader.Run(ctx)
	running.Wait()
	return nil
}

// seed closes seeded, see Seeded.
func (c *Client) seed(ctx context.Context, synced cache.InformerSynced) {
	if !cache.WaitForCacheSync(ctx.Done(), synced) {
		return
	}
	defer close(c.seeded)
	timeout := time.After(seedTimeout)
	for {
		updated := c.Updated()
		if c.HasAsked() {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-timeout:
			return
		case <-updated:
		}
	}
}

// replicasIn returns the replicas in a store of EndpointSlices, ready or not: as long as a replica may serve a proxy,
// the demand without its counts is incomplete.
func replicasIn(store cache.Store) []endpoints.Pod {
	var all []*discoveryv1.EndpointSlice
	for _, object := range store.List() {
		if slice, ok := object.(*discoveryv1.EndpointSlice); ok {
			all = append(all, slice)
		}
	}
	return endpoints.Pods(all, adminPort)
}
