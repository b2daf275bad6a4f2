package gatewayapi

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
)

// FieldManager is the name under which the API server records what this router writes (metadata.managedFields).
const FieldManager = "rollouts-plugin-kedify"

// Client reads and writes routes. It connects at its first call, as apiserver.Client has it, and finds out which version of the Gateway API the cluster serves.
//
// What it reads and writes goes into a cache for each kind of route, which Watch keeps up to date from the first use of that kind on; without Watch, every read is
// a request. The cache has the names and labels of all routes, and the whole of those that were used.
type Client struct {
	api     *kube.Client
	catalog *catalog
	caches  map[route.Kind]*kindCache
	wanted  chan route.Kind // kinds that are in use and not watched yet
}

// kindCache is the cache of one kind of route.
type kindCache struct {
	*kube.Cache[*object]

	want sync.Once
	used sync.Map // names of the routes that somebody uses, of which the whole is kept
}

// NewClient returns a Client that reaches the API server as config says. config is called until it has succeeded once.
func NewClient(config func() (*rest.Config, error)) *Client {
	api := kube.NewClient(config)
	client := &Client{api: api, catalog: newCatalog(api), caches: map[route.Kind]*kindCache{}, wanted: make(chan route.Kind, len(kinds()))}
	for _, kind := range kinds() {
		client.caches[kind] = &kindCache{Cache: kube.NewCache((*object).after)}
	}
	return client
}

// Watch keeps the Client's caches until ctx ends, each by a watch on every route of its kind that begins with the first use of the kind. While it cannot, reads go to
// the API server one by one. To be called once.
func (c *Client) Watch(ctx context.Context, log *slog.Logger) {
	var watches sync.WaitGroup
	defer watches.Wait()
	for {
		select {
		case kind := <-c.wanted:
			watches.Go(func() { c.follow(ctx, kind, log) })
		case <-ctx.Done():
			return
		}
	}
}

// follow keeps the cache of kind until ctx ends.
func (c *Client) follow(ctx context.Context, kind route.Kind, log *slog.Logger) {
	c.caches[kind].Follow(ctx, kube.Source[*object]{
		Client: c.api,
		Path: func(ctx context.Context) ([]string, error) {
			schema, err := c.catalog.of(ctx, kind)
			if err != nil {
				return nil, err
			}
			return []string{"apis", group, schema.version, kind.Resource()}, nil
		},
		Decode: c.caches[kind].decode,
		Title:  string(kind) + "s", Meanwhile: kube.EachCallReads,
		Remedies: kube.Remedies{
			NotFound: fmt.Sprintf("install the CustomResourceDefinition %s.%s", kind.Resource(), group),
			Forbidden: fmt.Sprintf("allow the controller's ServiceAccount to list and watch %s of %s in all namespaces: apply the ClusterRole "+
				"argo-rollouts-gateway-api", kind.Resource(), group),
		},
	}, log)
}

// decode takes a route in JSON: the whole of one that somebody uses, of the others the head. What the answer to a write has told already is not read again.
func (c *kindCache) decode(document []byte) (*object, error) {
	head, err := parseHead(document)
	if err != nil {
		return nil, err
	}
	if _, isUsed := c.used.Load(head.name); !isUsed {
		return head, nil
	}
	if known, is, _ := c.Get(head.name); is && known.version == head.version && known.Whole() {
		return known, nil
	}
	return head.whole(document)
}

// path is where a route is in a version of the Gateway API.
func path(kind route.Kind, version string, name types.NamespacedName) []string {
	return []string{"apis", group, version, "namespaces", name.Namespace, kind.Resource(), name.Name}
}

// served sends a request for routes of kind in the version that the cluster serves. Where it no longer serves that version, which somebody may change at any time, it is
// looked up anew.
func (c *Client) served(ctx context.Context, kind route.Kind, request func(version string) kube.Request) ([]byte, error) {
	schema, err := c.catalog.of(ctx, kind)
	if err != nil {
		return nil, err
	}
	body, err := c.api.Do(ctx, request(schema.version))
	if !apierrors.IsNotFound(err) || !apierrors.IsUnexpectedServerError(err) { // a Status says that an object is missing, a bare 404 that its path is
		return body, err
	}
	c.catalog.forget(kind)
	if schema, err = c.catalog.of(ctx, kind); err != nil {
		return nil, err
	}
	return c.api.Do(ctx, request(schema.version))
}

// get reads one route from the API server, not from a cache.
func (c *Client) get(ctx context.Context, kind route.Kind, name types.NamespacedName) (*object, error) {
	c.caches[kind].used.Store(name, true) // first, so that what the watch tells after this answer is kept whole
	return c.answered(kind)(c.served(ctx, kind, func(version string) kube.Request {
		return kube.Request{Path: path(kind, version, name)}
	}))
}

// answered takes a route that the API server answered with.
func (c *Client) answered(kind route.Kind) func([]byte, error) (*object, error) {
	return func(document []byte, err error) (*object, error) {
		if err != nil {
			return nil, err
		}
		live, err := parseObject(document)
		if err != nil {
			return nil, err
		}
		c.caches[kind].Put(live)
		return live, nil
	}
}

// recent returns a route from the cache where that can be believed, else from the API server; cached tells which. That a route does not exist is always the
// API server's word.
func (c *Client) recent(ctx context.Context, kind route.Kind, name types.NamespacedName) (state *object, cached bool, err error) {
	c.use(kind)
	return c.caches[kind].Recent(ctx, name, func(ctx context.Context) (*object, error) { return c.get(ctx, kind, name) })
}

// use lets Watch watch routes of kind.
func (c *Client) use(kind route.Kind) {
	c.caches[kind].want.Do(func() { c.wanted <- kind })
}

// selected returns the names of the routes of a selection.
func (c *Client) selected(ctx context.Context, which selection) ([]types.NamespacedName, error) {
	c.use(which.kind)
	states, believed := c.caches[which.kind].Select(func(o *object) bool { return o.name.Namespace == which.namespace && which.labels.Matches(o.labels) })
	if !believed {
		var err error
		if states, err = c.list(ctx, which); err != nil {
			return nil, err
		}
	}
	names := make([]types.NamespacedName, 0, len(states))
	for _, state := range states {
		names = append(names, state.name)
	}
	return names, nil
}

// list reads the routes of a selection from the API server.
func (c *Client) list(ctx context.Context, which selection) ([]*object, error) {
	body, err := c.served(ctx, which.kind, func(version string) kube.Request {
		return kube.Request{
			Path:  []string{"apis", group, version, "namespaces", which.namespace, which.kind.Resource()},
			Query: map[string]string{"labelSelector": which.labels.String()},
		}
	})
	if err != nil {
		return nil, err
	}
	return parseList(body)
}

// put writes a route whole. It fails with a conflict when the live route is no longer the one that was read, so that no decision rests on an old state.
func (c *Client) put(ctx context.Context, kind route.Kind, read *object, content map[string]any) error {
	written := maps.Clone(content)
	written["kind"] = string(kind)
	schema, err := c.catalog.of(ctx, kind)
	if err != nil {
		return err
	}
	written["apiVersion"] = group + "/" + schema.version
	body, err := utiljson.Marshal(written)
	if err != nil {
		return fmt.Errorf("%s %q: %w", kind, read.name, err)
	}
	_, err = c.answered(kind)(c.api.Do(ctx, kube.Request{
		Verb: http.MethodPut, Path: path(kind, schema.version, read.name), Query: map[string]string{"fieldManager": FieldManager}, Body: body,
	}))
	return err
}
