package demandclient

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/kedify/argo-rollouts-plugin/internal/kube/endpoints"
)

const (
	// adminService is the Service in front of all replicas of the interceptor, and adminPort the name of its port.
	adminService = "keda-add-ons-http-interceptor-admin"
	adminPort    = "admin"
	// seedTimeout bounds the wait for the first reports after the replicas are known. The demand of a replica that has
	// not answered by then stays unknown, but the client counts as seeded.
	seedTimeout = 3 * time.Second
)

// Client is a Reader of all replicas of the interceptor, which it finds by the EndpointSlices of their admin Service.
type Client struct {
	*Reader

	slices cache.ListerWatcher
	seeded chan struct{}
}

// NewClient returns a Client for the interceptors in namespace. It connects to nothing before Run.
func NewClient(namespace string, config *rest.Config, logger *slog.Logger) (*Client, error) {
	scheme := runtime.NewScheme()
	if err := discoveryv1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register kinds: %w", err)
	}
	discovery := rest.CopyConfig(config)
	discovery.GroupVersion, discovery.APIPath = &discoveryv1.SchemeGroupVersion, "/apis"
	discovery.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(discovery)
	if err != nil {
		return nil, fmt.Errorf("client for EndpointSlices: %w", err)
	}
	slices := cache.NewFilteredListWatchFromClient(client, "endpointslices", namespace,
		func(options *metav1.ListOptions) {
			options.LabelSelector = discoveryv1.LabelServiceName + "=" + adminService
		})
	return &Client{Reader: New(logger), slices: slices, seeded: make(chan struct{})}, nil
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
	informerDone := make(chan struct{})
	go func() {
		defer close(informerDone)
		informer.RunWithContext(ctx)
	}()
	seedDone := make(chan struct{})
	go func() {
		defer close(seedDone)
		c.seed(ctx, informer.HasSynced)
	}()
	c.Reader.Run(ctx)
	<-informerDone
	<-seedDone
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
