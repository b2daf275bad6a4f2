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
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

const (
	// watchSeconds is the timeout of a watch in the API server, watchLimit in the client.
	watchSeconds = "240"
	watchLimit   = 5 * time.Minute
	// watchRestartDelay is the delay before everything is read again after a watch has ended.
	followPause = time.Second
)

// change applies a watch event to the facts.
type change func(*facts.Facts) error

// watchSource is a watch and the conversion of its events.
type source struct {
	path  []string
	query map[string]string // the selector
	read  func(kind watch.EventType, object []byte) change
}

// errRereadNeeded reports that everything must be read again.
var errAnew = errors.New("the Rollout references other objects")

// Watch reads a Rollout and the objects that it references, and follows their changes until ctx ends. It calls notify
// with the facts after the first reading and after each change, one call at a time. It fails if notify fails, and if a
// reading fails: the first one with any error, later ones with a permanent error, e.g. if the Rollout was deleted. It
// notices the deletion of an object between reading and watching after at most four minutes.
func (r *Reader) Follow(ctx context.Context, name types.NamespacedName, told func(*facts.Facts) error) error {
	for isFirst := true; ctx.Err() == nil; isFirst = false {
		cluster, err := r.One(ctx, name)
		switch {
		case err != nil && (isFirst || !kube.IsTransient(err)):
			return err
		case err == nil:
			if err := told(cluster); err != nil {
				return err
			}
			if err := r.follow(ctx, cluster, told); err != nil {
				return err
			}
		}
		kube.Sleep(ctx, followPause)
	}
	return nil
}

// watchAll applies changes to the facts until a watch ends, the Rollout references other objects, or ctx ends. It
// returns only errors of notify: after all others the caller reads everything again.
func (r *Reader) follow(ctx context.Context, cluster *facts.Facts, told func(*facts.Facts) error) error {
	ctx, cancel := context.WithTimeout(ctx, watchLimit)
	defer cancel()
	served, err := r.servedRoutes(ctx)
	if err != nil {
		return nil
	}
	changes := make(chan change)
	sources := sourcesOf(cluster, func(named facts.RouteName) string { return served[named.Kind] })
	endpoints, err := r.endpointsSource(ctx, cluster)
	if err != nil {
		return nil
	}
	sources = append(sources, endpoints...)
	for _, from := range sources {
		go func() {
			r.watch(ctx, from, changes)
			cancel()
		}()
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case carryOut := <-changes:
			if carryOut(cluster) != nil {
				return nil
			}
			if err := told(cluster); err != nil {
				return err
			}
		}
	}
}

// watch sends the events of a watch to the channel until the watch ends. Unless the query has a resource version, it
// starts with the existing objects.
func (r *Reader) watch(ctx context.Context, from source, to chan<- change) {
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
		case to <- from.read(event.Type, event.Object):
		case <-ctx.Done():
			return
		}
	}
}

// watchSources returns the watches for a Rollout and the objects that it references. Routes that are selected by labels
// are not watched.
func sourcesOf(cluster *facts.Facts, version func(facts.RouteName) string) []source {
	one := &cluster.Rollouts[0]
	all := []source{rolloutSource(one)}
	if one.Object != "" {
		all = append(all, objectSource(cluster, types.NamespacedName{Namespace: one.Namespace, Name: one.Object}))
	}
	for _, named := range one.RouteNames {
		if of := version(named); of != "" {
			path := []string{"apis", gatewayGroup, of, "namespaces", named.Name.Namespace, named.Kind.Resource()}
			all = append(all, source{path: path, query: byName(named.Name.Name), read: readRoute(named, of)})
		}
	}
	return all
}

// collection returns the path of the collection of an object's path.
func collection(path []string) []string { return path[:len(path)-1] }

// nameQuery selects the object of a name.
func byName(name string) map[string]string {
	return map[string]string{"fieldSelector": "metadata.name=" + name}
}

// rolloutSource watches the Rollout. A change of its references requires a new reading.
func rolloutSource(one *facts.Rollout) source {
	known := names(one)
	return source{path: collection(rolloutPath(one.Key())), query: byName(one.Name), read: func(kind watch.EventType, object []byte) change {
		return func(cluster *facts.Facts) error {
			rollout := new(v1alpha1.Rollout)
			if err := json.Unmarshal(object, rollout); err != nil {
				return err
			}
			changed := Understand(rollout)
			if kind == watch.Deleted || names(&changed) != known {
				return errAnew
			}
			cluster.Rollouts[0] = changed
			return nil
		}
	}}
}

// references returns a text that identifies everything that a Rollout references.
func names(one *facts.Rollout) string {
	return fmt.Sprint(one.UID, one.Object, one.ObjectError, one.RouteNames, one.RoutesError, serviceNames(one))
}

// objectSource watches the HTTPScaledObject that the Rollout references or, if it belongs to a ScaledObject, all of the
// namespace.
func objectSource(cluster *facts.Facts, name types.NamespacedName) source {
	query := byName(name.Name)
	if named := cluster.HTTPScaledObject(name); named != nil && httpv1alpha1.ScaledObjectOf(named) != "" {
		query = map[string]string{}
	}
	return source{path: collection(objectPath(name)), query: query, read: readObject()}
}

// decodeObject converts events of HTTPScaledObjects.
func readObject() func(watch.EventType, []byte) change {
	return func(kind watch.EventType, text []byte) change {
		return func(cluster *facts.Facts) error {
			var object httpv1alpha1.HTTPScaledObject
			if err := json.Unmarshal(text, &object); err != nil {
				return err
			}
			cluster.HTTPScaledObjects = slices.DeleteFunc(cluster.HTTPScaledObjects, func(o httpv1alpha1.HTTPScaledObject) bool { return o.Name == object.Name })
			if kind != watch.Deleted {
				cluster.HTTPScaledObjects = append(cluster.HTTPScaledObjects, object)
			}
			return nil
		}
	}
}

// decodeRoute converts events of a route.
func readRoute(named facts.RouteName, version string) func(watch.EventType, []byte) change {
	return func(kind watch.EventType, text []byte) change {
		return func(cluster *facts.Facts) error {
			if kind == watch.Deleted {
				cluster.Routes = slices.DeleteFunc(cluster.Routes, func(r facts.Route) bool { return r.Kind == named.Kind && r.Name == named.Name })
				return nil
			}
			return cluster.AddRoute(parseRoute(named.Kind, version, text))
		}
	}
}

// endpointsSource watches the EndpointSlices of a Rollout's Services. It lists them first, because the number of ready
// endpoints requires all slices.
func (r *Reader) endpointsSource(ctx context.Context, cluster *facts.Facts) ([]source, error) {
	one := &cluster.Rollouts[0]
	names := serviceNames(one)
	if len(names) == 0 {
		return nil, nil
	}
	path := []string{"apis", "discovery.k8s.io", "v1", "namespaces", one.Namespace, "endpointslices"}
	query := map[string]string{"labelSelector": slicesOf(names)}
	var there discoveryv1.EndpointSliceList
	if err := r.get(ctx, kube.Request{Path: path, Query: query}, &there); err != nil {
		return nil, err
	}
	known := map[string]discoveryv1.EndpointSlice{}
	for _, slice := range there.Items {
		known[slice.Name] = slice
	}
	cluster.Ready = countReady(maps.Values(known))
	query["resourceVersion"] = there.ResourceVersion
	return []source{{path: path, query: query, read: readSlices(known)}}, nil
}

// decodeSlices converts events of EndpointSlices. known contains the current slices.
func readSlices(known map[string]discoveryv1.EndpointSlice) func(watch.EventType, []byte) change {
	return func(kind watch.EventType, text []byte) change {
		return func(cluster *facts.Facts) error {
			var slice discoveryv1.EndpointSlice
			if err := json.Unmarshal(text, &slice); err != nil {
				return err
			}
			known[slice.Name] = slice
			if kind == watch.Deleted {
				delete(known, slice.Name)
			}
			cluster.Ready = countReady(maps.Values(known))
			return nil
		}
	}
}
