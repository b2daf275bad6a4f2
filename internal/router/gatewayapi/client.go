package gatewayapi

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
)

// FieldManager is the field manager of this router's writes (metadata.managedFields).
const FieldManager = "gatewayapi-plugin"

// EarlierFieldManager is the field manager of this router's writes in earlier versions. Router kedify/http has the same
// one, but never writes routes.
const EarlierFieldManager = "rollouts-plugin-kedify"

// Client reads and writes routes. It connects in its first call, like kube.Client, and discovers the served version of
// the Gateway API.
//
// All states that it reads and writes go to a cache per kind of route, which Watch keeps up to date after the first use
// of the kind. Without Watch, each read is a request. The cache contains the names and labels of all routes, and the
// content of those that Rollouts use.
type Client struct {
	api     *kube.Client
	catalog *catalog
	caches  map[route.Kind]*kindCache
	toWatch chan route.Kind // kinds that are in use and not watched yet
}

// kindCache is the cache of one kind of route.
type kindCache struct {
	*kube.Cache[*object]

	watch sync.Once // requests the watch
	inUse sync.Map  // names of the routes that Rollouts use, which are cached with their content
}

// NewClient returns a Client for the API server of config, which is called until it succeeds once.
func NewClient(config func() (*rest.Config, error)) *Client {
	api := kube.NewClient(config)
	client := &Client{
		api: api, catalog: newCatalog(api), caches: map[route.Kind]*kindCache{}, toWatch: make(chan route.Kind, len(kinds())),
	}
	for _, kind := range kinds() {
		client.caches[kind] = &kindCache{Cache: kube.NewCache((*object).after)}
	}
	return client
}

// Watch keeps the Client's caches up to date until ctx ends, by a watch of all routes of a kind after its first use.
// While the watch is down, each read is a request. It must be called once.
func (c *Client) Watch(ctx context.Context, log *slog.Logger) {
	var watches sync.WaitGroup
	defer watches.Wait()
	for {
		select {
		case kind := <-c.toWatch:
			watches.Go(func() { c.follow(ctx, kind, log) })
		case <-ctx.Done():
			return
		}
	}
}

// follow keeps the cache of kind up to date until ctx ends.
func (c *Client) follow(ctx context.Context, kind route.Kind, log *slog.Logger) {
	c.caches[kind].Follow(ctx, kube.Source[*object]{
		Client: c.api,
		Path: func(ctx context.Context) ([]string, error) {
			schema, err := c.catalog.lookup(ctx, kind)
			if err != nil {
				return nil, err
			}
			return []string{"apis", group, schema.version, kind.Resource()}, nil
		},
		Decode: c.caches[kind].decode,
		Title:  string(kind) + "s", Fallback: kube.ReadPerCall,
		Fixes: kube.Fixes{
			NotFound: fmt.Sprintf("install the CustomResourceDefinition %s.%s", kind.Resource(), group),
			Forbidden: fmt.Sprintf("allow the controller's ServiceAccount to list and watch %s of %s in all namespaces: apply "+
				"the ClusterRole argo-rollouts-gateway-api", kind.Resource(), group),
		},
	}, log)
}

// decode parses a route in JSON: with its content if a Rollout uses it. A state that the response to a write has
// already delivered is not parsed again.
func (c *kindCache) decode(document []byte) (*object, error) {
	head, err := parseHead(document)
	if err != nil {
		return nil, err
	}
	if _, isUsed := c.inUse.Load(head.name); !isUsed {
		return head, nil
	}
	if cached, ok, _ := c.Get(head.name); ok && cached.resourceVersion == head.resourceVersion && cached.IsComplete() {
		return cached, nil
	}
	return head.withContent(document)
}

// path returns the API path of a route in a version of the Gateway API.
func path(kind route.Kind, version string, name types.NamespacedName) []string {
	return []string{"apis", group, version, "namespaces", name.Namespace, kind.Resource(), name.Name}
}

// doVersioned sends a request for routes of kind in the served version. If the cluster no longer serves that version,
// it is discovered again.
func (c *Client) doVersioned(
	ctx context.Context, kind route.Kind, request func(version string) kube.Request,
) ([]byte, error) {
	schema, err := c.catalog.lookup(ctx, kind)
	if err != nil {
		return nil, err
	}
	body, err := c.api.Do(ctx, request(schema.version))
	if !apierrors.IsNotFound(err) || !apierrors.IsUnexpectedServerError(err) {
		return body, err // a 404 with a Status means a missing object, one without a missing path
	}
	c.catalog.invalidate(kind)
	if schema, err = c.catalog.lookup(ctx, kind); err != nil {
		return nil, err
	}
	return c.api.Do(ctx, request(schema.version))
}

// getLive reads one route from the API server, not from a cache.
func (c *Client) getLive(ctx context.Context, kind route.Kind, name types.NamespacedName) (*object, error) {
	c.caches[kind].inUse.Store(name, true) // first, so that watch events after this read are cached with their content
	return c.decode(kind)(c.read(ctx, kind, name))
}

// read reads one route in JSON from the API server.
func (c *Client) read(ctx context.Context, kind route.Kind, name types.NamespacedName) ([]byte, error) {
	return c.doVersioned(ctx, kind, func(version string) kube.Request {
		return kube.Request{Path: path(kind, version, name)}
	})
}

// decode returns a function that parses a route in a response of the API server and adds it to the cache.
func (c *Client) decode(kind route.Kind) func([]byte, error) (*object, error) {
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

// get returns a route from the cache if that is up to date, otherwise from the API server; cached is true for the
// former. A route counts as missing only after a 404 of the API server.
func (c *Client) get(
	ctx context.Context, kind route.Kind, name types.NamespacedName,
) (live *object, cached bool, err error) {
	c.requestWatch(kind)
	return c.caches[kind].Recent(ctx, name, func(ctx context.Context) (*object,
		error,
	) {
		return c.getLive(ctx, kind, name)
	})
}

// requestWatch makes Watch watch routes of kind.
func (c *Client) requestWatch(kind route.Kind) {
	c.caches[kind].watch.Do(func() { c.toWatch <- kind })
}

// selectNames returns the names of the routes that a selector matches.
func (c *Client) selectNames(ctx context.Context, s selection) ([]types.NamespacedName, error) {
	c.requestWatch(s.kind)
	objects, current := c.caches[s.kind].Select(func(o *object) bool {
		return o.name.Namespace == s.namespace && s.labels.Matches(o.labels)
	})
	if !current {
		var err error
		if objects, err = c.list(ctx, s); err != nil {
			return nil, err
		}
	}
	names := make([]types.NamespacedName, 0, len(objects))
	for _, selected := range objects {
		names = append(names, selected.name)
	}
	return names, nil
}

// list reads the routes that a selector matches from the API server.
func (c *Client) list(ctx context.Context, s selection) ([]*object, error) {
	body, err := c.doVersioned(ctx, s.kind, func(version string) kube.Request {
		return kube.Request{
			Path:  []string{"apis", group, version, "namespaces", s.namespace, s.kind.Resource()},
			Query: map[string]string{"labelSelector": s.labels.String()},
		}
	})
	if err != nil {
		return nil, err
	}
	return parseList(body)
}

// fieldValidation is what the API server does with fields that the CustomResourceDefinition does not have (the
// parameter of that name).
type fieldValidation string

const (
	dropUnknown   fieldValidation = ""       // the default: it warns and drops them
	rejectUnknown fieldValidation = "Strict" // it rejects the request
)

// isUnknownSession reports whether the API server has rejected a write because the CustomResourceDefinition has no
// sessions.
func isUnknownSession(err error) bool {
	return apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "strict decoding error") &&
		strings.Contains(err.Error(), "sessionPersistence")
}

// update replaces a route. It fails with a conflict if the live route is not the one that was read, so that no decision
// is based on an outdated state. It returns the stored route in JSON.
func (c *Client) update(
	ctx context.Context, kind route.Kind, name types.NamespacedName, content map[string]any, unknown fieldValidation,
) ([]byte, error) {
	written := maps.Clone(content)
	written["kind"] = string(kind)
	schema, err := c.catalog.lookup(ctx, kind)
	if err != nil {
		return nil, err
	}
	written["apiVersion"] = group + "/" + schema.version
	body, err := utiljson.Marshal(written)
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", kind, name, err)
	}
	query := map[string]string{"fieldManager": FieldManager}
	if unknown != dropUnknown {
		query["fieldValidation"] = string(unknown)
	}
	stored, err := c.api.Do(ctx, kube.Request{
		Verb: http.MethodPut, Path: path(kind, schema.version, name), Query: query, Body: body,
	})
	_, err = c.decode(kind)(stored, err)
	return stored, err
}

// release removes this router from metadata.managedFields of a route in JSON, unless a Rollout is active on it.
// Otherwise a write of the weights makes it the owner of all rules, which are one field for server-side apply: every
// later change of a rule by its author would be a conflict.
func (c *Client) release(ctx context.Context, kind route.Kind, document []byte) error {
	live, err := parseHead(document)
	if err != nil || !live.ownsFieldsAtRest() {
		return err
	}
	content := map[string]any{}
	if err := utiljson.Unmarshal(document, &content); err != nil {
		return fmt.Errorf("not a route: %w", err)
	}
	if metadata, ok := content["metadata"].(map[string]any); ok {
		metadata["managedFields"] = withoutOwn(metadata["managedFields"])
	}
	_, err = c.update(ctx, kind, live.name, content, dropUnknown)
	return err
}

// withoutOwn returns metadata.managedFields without the entries of this router. A single empty entry clears the list;
// no entry at all would preserve it.
func withoutOwn(managedFields any) []any {
	entries, _ := managedFields.([]any)
	entries = slices.DeleteFunc(entries, func(value any) bool {
		entry, _ := value.(map[string]any)
		manager, _ := entry["manager"].(string)
		subresource, _ := entry["subresource"].(string)
		return fieldsEntry{manager, subresource}.isOwn()
	})
	if len(entries) == 0 {
		return []any{map[string]any{}}
	}
	return entries
}
