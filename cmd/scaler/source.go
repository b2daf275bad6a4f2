package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status/peers"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/demandclient"
)

const (
	// adminService is the Service that all replicas of the interceptor are behind, adminPort its
	// port.
	adminService = "keda-add-ons-http-interceptor-admin"
	adminPort    = "admin"
	// firstAnswers bounds the wait for the first figures once the replicas are known. A replica
	// that does not answer in that time keeps its figures unknown, not the scaler from telling so.
	firstAnswers = 3 * time.Second
)

// interceptors are a source: what all replicas of the interceptor report.
type interceptors struct {
	reader *demandclient.Reader
	lists  cache.ListerWatcher // of the interceptors' EndpointSlices
	seeded chan struct{}
}

// newSource returns the figures of the interceptors. They are looked for with Run.
func newSource(chosen settings, config *rest.Config, logger *slog.Logger) (source, error) {
	scheme := runtime.NewScheme()
	if err := discoveryv1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register kinds: %w", err)
	}
	own := rest.CopyConfig(config)
	own.GroupVersion, own.APIPath = &discoveryv1.SchemeGroupVersion, "/apis"
	own.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("client for EndpointSlices: %w", err)
	}
	lists := cache.NewFilteredListWatchFromClient(client, "endpointslices", chosen.interceptorNamespace,
		func(options *metav1.ListOptions) {
			options.LabelSelector = discoveryv1.LabelServiceName + "=" + adminService
		})
	return &interceptors{reader: demandclient.New(logger), lists: lists, seeded: make(chan struct{})}, nil
}

// Demand sums up what the replicas report of an object.
func (i *interceptors) Demand(object types.NamespacedName) (scaler.Figure, error) {
	value, err := i.reader.Demand(model.Key{Namespace: object.Namespace, Name: object.Name})
	return scaler.Figure{
		RequestRate: value.RequestRate, RateError: value.RateError, Concurrency: value.Concurrency, Held: value.Held,
	}, err
}

// Changed tells of the next report that says something else of an object.
func (i *interceptors) Changed(object types.NamespacedName) <-chan struct{} {
	return i.reader.Changed(model.Key{Namespace: object.Namespace, Name: object.Name})
}

// Register adds demandreader.BackendPath to mux.
func (i *interceptors) Register(mux *http.ServeMux) { i.reader.Register(mux) }

// Seeded tells of the first answers.
func (i *interceptors) Seeded() <-chan struct{} { return i.seeded }

// Run follows the replicas and their reports until ctx ends.
func (i *interceptors) Run(ctx context.Context) error {
	var store cache.Store
	tell := func() { i.reader.SetReplicas(interceptorsIn(store)) }
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: i.lists,
		ObjectType:    &discoveryv1.EndpointSlice{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { tell() }, UpdateFunc: func(any, any) { tell() }, DeleteFunc: func(any) { tell() },
		},
	})
	listed := make(chan struct{})
	go func() {
		defer close(listed)
		informer.RunWithContext(ctx)
	}()
	seeding := make(chan struct{})
	go func() {
		defer close(seeding)
		i.seed(ctx, informer.HasSynced)
	}()
	i.reader.Run(ctx)
	<-listed
	<-seeding
	return nil
}

// seed closes seeded when the replicas are known, and each has answered or failed to, or has had the
// time for it.
func (i *interceptors) seed(ctx context.Context, synced cache.InformerSynced) {
	if !cache.WaitForCacheSync(ctx.Done(), synced) {
		return
	}
	defer close(i.seeded)
	enough := time.After(firstAnswers)
	for {
		updated := i.reader.Updated()
		if i.reader.HasAsked() {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-enough:
			return
		case <-updated:
		}
	}
}

// interceptorsIn are the replicas that are endpoints of the slices in a store, ready or not: what one of
// them has counted is missing as long as it may serve a proxy.
func interceptorsIn(store cache.Store) []demandclient.Replica {
	var all []*discoveryv1.EndpointSlice
	for _, each := range store.List() {
		if slice, is := each.(*discoveryv1.EndpointSlice); is {
			all = append(all, slice)
		}
	}
	var found []demandclient.Replica
	for _, replica := range peers.At(all, adminPort) {
		found = append(found, demandclient.Replica(replica))
	}
	return found
}
