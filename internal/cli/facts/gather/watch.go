package gather

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

const (
	// watchSeconds is the timeout of a watch in the API server, watchLimit in the client.
	watchSeconds = "240"
	watchLimit   = 5 * time.Minute
	// watchRestartDelay is the delay before everything is read again after a watch has ended.
	watchRestartDelay = time.Second
)

// change applies a watch event to the facts.
type change func(*facts.Facts) error

// watchSource is a watch and the conversion of its events.
type watchSource struct {
	path   []string
	query  map[string]string // the selector
	decode func(kind watch.EventType, object []byte) change
}

// errRereadNeeded reports that everything must be read again.
var errRereadNeeded = errors.New("the Rollout references other objects")

// Watch reads a Rollout and the objects that it references, and follows their changes until ctx ends. It calls notify
// with the facts after the first reading and after each change, one call at a time. It fails if notify fails, and if a
// reading fails: the first one with any error, later ones with a permanent error, e.g. if the Rollout was deleted. It
// notices the deletion of an object between reading and watching after at most four minutes.
func (r *Reader) Watch(ctx context.Context, name types.NamespacedName, notify func(*facts.Facts) error) error {
	for isFirst := true; ctx.Err() == nil; isFirst = false {
		cluster, err := r.Rollout(ctx, name)
		switch {
		case err != nil && (isFirst || !kube.IsTransient(err)):
			return err
		case err == nil:
			if err := notify(cluster); err != nil {
				return err
			}
			if err := r.watchAll(ctx, cluster, notify); err != nil {
				return err
			}
		}
		kube.Sleep(ctx, watchRestartDelay)
	}
	return nil
}

// watchAll applies changes to the facts until a watch ends, the Rollout references other objects, or ctx ends. It
// returns only errors of notify: after all others the caller reads everything again.
func (r *Reader) watchAll(ctx context.Context, cluster *facts.Facts, notify func(*facts.Facts) error) error {
	ctx, cancel := context.WithTimeout(ctx, watchLimit)
	defer cancel()
	served, err := r.servedRoutes(ctx)
	if err != nil {
		return nil
	}
	changes := make(chan change)
	sources := watchSources(cluster, func(named facts.RouteName) string { return served[named.Kind] })
	endpoints, err := r.endpointsSource(ctx, cluster)
	if err != nil {
		return nil
	}
	sources = append(sources, endpoints...)
	for _, source := range sources {
		go func() {
			r.watch(ctx, source, changes)
			cancel()
		}()
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case apply := <-changes:
			if apply(cluster) != nil {
				return nil
			}
			if err := notify(cluster); err != nil {
				return err
			}
		}
	}
}

// watch sends the events of a watch to the channel until the watch ends. Unless the query has a resource version, it
// starts with the existing objects.
func (r *Reader) watch(ctx context.Context, from watchSource, to chan<- change) {
	query := maps.Clone(from.query)
	query["watch"], query["timeoutSeconds"] = "true", watchSeconds
	stream, err := r.client.Stream(ctx, kube.Request{Path: from.path, Query: query})
	if err != nil {
		return
	}
	defer stream.Close()
	for decoder := json.NewDecoder(stream); ; {
		var event struct {
			Type   watch.EventType `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if err := decoder.Decode(&event); err != nil || event.Type == watch.Error {
			return
		}
		select {
		case to <- from.decode(event.Type, event.Object):
		case <-ctx.Done():
			return
		}
	}
}

// watchSources returns the watches for a Rollout and the objects that it references. Routes that are selected by labels
// are not watched.
func watchSources(cluster *facts.Facts, version func(facts.RouteName) string) []watchSource {
	rollout := &cluster.Rollouts[0]
	all := []watchSource{rolloutSource(rollout)}
	if rollout.Object != "" {
		all = append(all, objectSource(cluster, types.NamespacedName{
			Namespace: rollout.Namespace,
			Name:      rollout.Object,
		}))
	}
	if rollout.InterceptorRoute != "" {
		name := types.NamespacedName{Namespace: rollout.Namespace, Name: rollout.InterceptorRoute}
		all = append(all, watchSource{
			path: collection(routePath(name)), query: nameQuery(name.Name), decode: decodeInterceptorRoute,
		})
	}
	for _, reference := range rollout.RouteNames {
		if served := version(reference); served != "" {
			path := []string{
				"apis", gatewayGroup, served, "namespaces", reference.Name.Namespace,
				reference.Kind.Resource(),
			}
			all = append(all, watchSource{
				path: path, query: nameQuery(reference.Name.Name),
				decode: decodeRoute(reference, served),
			})
		}
	}
	return all
}

// collection returns the path of the collection of an object's path.
func collection(path []string) []string { return path[:len(path)-1] }

// nameQuery selects the object of a name.
func nameQuery(name string) map[string]string {
	return map[string]string{"fieldSelector": "metadata.name=" + name}
}

// rolloutSource watches the Rollout. A change of its references requires a new reading.
func rolloutSource(rollout *facts.Rollout) watchSource {
	current := references(rollout)
	return watchSource{
		path: collection(rolloutPath(rollout.Key())), query: nameQuery(rollout.Name),
		decode: func(kind watch.EventType, object []byte) change {
			return func(cluster *facts.Facts) error {
				rollout := new(v1alpha1.Rollout)
				if err := json.Unmarshal(object, rollout); err != nil {
					return err
				}
				changed := ParseRollout(rollout)
				if kind == watch.Deleted || references(&changed) != current {
					return errRereadNeeded
				}
				cluster.Rollouts[0] = changed
				return nil
			}
		},
	}
}

// references returns a text that identifies everything that a Rollout references.
func references(rollout *facts.Rollout) string {
	return fmt.Sprint(rollout.UID, rollout.Object, rollout.InterceptorRoute, rollout.ObjectError, rollout.RouteNames,
		rollout.RoutesError, serviceNames(rollout))
}

// objectSource watches the HTTPScaledObject that the Rollout references or, if it belongs to a ScaledObject, all of the
// namespace.
func objectSource(cluster *facts.Facts, name types.NamespacedName) watchSource {
	query := nameQuery(name.Name)
	if named := cluster.HTTPScaledObject(name); named != nil && httpv1alpha1.ScaledObjectOf(named) != "" {
		query = map[string]string{}
	}
	return watchSource{path: collection(objectPath(name)), query: query, decode: decodeObject()}
}

// decodeObject converts events of HTTPScaledObjects.
func decodeObject() func(watch.EventType, []byte) change {
	return func(kind watch.EventType, text []byte) change {
		return func(cluster *facts.Facts) error {
			var object httpv1alpha1.HTTPScaledObject
			if err := json.Unmarshal(text, &object); err != nil {
				return err
			}
			cluster.HTTPScaledObjects = slices.DeleteFunc(cluster.HTTPScaledObjects,
				func(o httpv1alpha1.HTTPScaledObject) bool { return o.Name == object.Name })
			if kind != watch.Deleted {
				cluster.HTTPScaledObjects = append(cluster.HTTPScaledObjects, object)
			}
			return nil
		}
	}
}

// decodeInterceptorRoute converts events of the InterceptorRoute.
func decodeInterceptorRoute(kind watch.EventType, text []byte) change {
	return func(cluster *facts.Facts) error {
		var route httpv1beta1.InterceptorRoute
		if err := json.Unmarshal(text, &route); err != nil {
			return err
		}
		if cluster.InterceptorRoutes = nil; kind != watch.Deleted {
			cluster.InterceptorRoutes = []httpv1alpha1.HTTPScaledObject{facts.NewInterceptorRoute(&route)}
		}
		return nil
	}
}

// decodeRoute converts events of a route.
func decodeRoute(named facts.RouteName, version string) func(watch.EventType, []byte) change {
	return func(kind watch.EventType, text []byte) change {
		return func(cluster *facts.Facts) error {
			if kind == watch.Deleted {
				cluster.Routes = slices.DeleteFunc(cluster.Routes,
					func(r facts.Route) bool { return r.Kind == named.Kind && r.Name == named.Name })
				return nil
			}
			return cluster.AddRoute(parseRoute(named.Kind, version, text))
		}
	}
}

// endpointsSource watches the EndpointSlices of a Rollout's Services. It lists them first, because the number of ready
// endpoints requires all slices.
func (r *Reader) endpointsSource(ctx context.Context, cluster *facts.Facts) ([]watchSource, error) {
	rollout := &cluster.Rollouts[0]
	names := serviceNames(rollout)
	if len(names) == 0 {
		return nil, nil
	}
	path := []string{"apis", "discovery.k8s.io", "v1", "namespaces", rollout.Namespace, "endpointslices"}
	query := map[string]string{"labelSelector": sliceSelector(names)}
	var existing discoveryv1.EndpointSliceList
	if err := r.get(ctx, kube.Request{Path: path, Query: query}, &existing); err != nil {
		return nil, err
	}
	current := map[string]discoveryv1.EndpointSlice{}
	for _, slice := range existing.Items {
		current[slice.Name] = slice
	}
	cluster.ReadyEndpoints = countReady(maps.Values(current))
	query["resourceVersion"] = existing.ResourceVersion
	return []watchSource{{path: path, query: query, decode: decodeSlices(current)}}, nil
}

// decodeSlices converts events of EndpointSlices. current contains the current slices.
func decodeSlices(current map[string]discoveryv1.EndpointSlice) func(watch.EventType, []byte) change {
	return func(kind watch.EventType, text []byte) change {
		return func(cluster *facts.Facts) error {
			var slice discoveryv1.EndpointSlice
			if err := json.Unmarshal(text, &slice); err != nil {
				return err
			}
			current[slice.Name] = slice
			if kind == watch.Deleted {
				delete(current, slice.Name)
			}
			cluster.ReadyEndpoints = countReady(maps.Values(current))
			return nil
		}
	}
}
