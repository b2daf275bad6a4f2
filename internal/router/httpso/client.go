package httpso

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// FieldManager is the field manager of this router's writes (metadata.managedFields).
const FieldManager = "rollouts-plugin-kedify"

// Client reads HTTPScaledObjects and InterceptorRoutes and writes their annotations. It connects in its first call, like
// kube.Client.
//
// All states that it reads and writes go to a cache, which Watch keeps up to date. Without Watch, each read is a
// request.
type Client struct {
	api   *kube.Client
	kind  kind
	cache *kube.Cache[*object]
	// routes is the Client for InterceptorRoutes, nil if this is it. It watches them from the first use on, so that a
	// controller without such Rollouts needs neither the permission nor the CustomResourceDefinition.
	routes *Client
	used   chan struct{}
	use    sync.Once
}

// NewClient returns a Client for the API server of config, which is called until it succeeds once.
func NewClient(config func() (*rest.Config, error)) *Client {
	api := kube.NewClient(config)
	made := func(kind kind) *Client {
		return &Client{api: api, kind: kind, cache: kube.NewCache((*object).after), used: make(chan struct{})}
	}
	client := made(scaledObjectKind())
	client.routes = made(routeKind())
	return client
}

// markUsed starts the watch of InterceptorRoutes.
func (c *Client) markUsed() { c.use.Do(func() { close(c.used) }) }

// Watch keeps the Client's cache up to date until ctx ends, by a watch of all HTTPScaledObjects, and of all
// InterceptorRoutes once a Rollout names one. While a watch is down, each read is a request. It must be called once.
func (c *Client) Watch(ctx context.Context, log *slog.Logger) {
	var watches sync.WaitGroup
	watches.Go(func() { c.follow(ctx, log) })
	watches.Go(func() {
		select {
		case <-ctx.Done():
		case <-c.routes.used:
			c.routes.follow(ctx, log)
		}
	})
	watches.Wait()
}

// follow watches all objects of the kind until ctx ends.
func (c *Client) follow(ctx context.Context, log *slog.Logger) {
	c.cache.Follow(ctx, kube.Source[*object]{
		Client: c.api,
		Path: func(context.Context) ([]string, error) {
			return []string{"apis", httpv1alpha1.Group, c.kind.version, c.kind.resource}, nil
		},
		Decode: c.kind.parse,
		Title:  c.kind.name + "s", Fallback: kube.ReadPerCall,
		Fixes: kube.Fixes{
			NotFound: "install the CustomResourceDefinition " + c.kind.crd(),
			Forbidden: "allow the controller's ServiceAccount to list and watch " + c.kind.resource + " in all namespaces: " +
				"apply the ClusterRole argo-rollouts-kedify-http",
		},
	}, log)
}

// getLive reads one object from the API server, not from the cache.
func (c *Client) getLive(ctx context.Context, name types.NamespacedName) (*object, error) {
	return c.decode(c.api.Do(ctx, kube.Request{Path: c.kind.path(name)}))
}

// list reads the objects of a namespace from the API server.
func (c *Client) list(ctx context.Context, namespace string) (objects []*object, err error) {
	err = kube.Retry(ctx, func(ctx context.Context) error {
		var all struct {
			Items []json.RawMessage `json:"items"`
		}
		body, err := c.api.Do(ctx, kube.Request{Path: c.kind.path(types.NamespacedName{Namespace: namespace})})
		if err == nil {
			err = json.Unmarshal(body, &all)
		}
		objects = nil
		for _, item := range all.Items {
			live, decodeErr := c.decode(item, nil)
			if decodeErr != nil {
				return decodeErr
			}
			objects = append(objects, live)
		}
		return err
	})
	return objects, err
}

// decode parses an object in a response of the API server and adds it to the cache.
func (c *Client) decode(document []byte, err error) (*object, error) {
	if err != nil {
		return nil, err
	}
	live, err := c.kind.parse(document)
	if err != nil {
		return nil, err
	}
	return c.cache.Put(live), nil
}

// get returns an object from the cache if that is up to date, otherwise from the API server; cached is true for the
// former. An object counts as missing only after a 404 of the API server.
func (c *Client) get(ctx context.Context, name types.NamespacedName) (live *object, cached bool, err error) {
	return c.cache.Recent(ctx, name, func(ctx context.Context) (*object, error) { return c.getLive(ctx, name) })
}

// patchAnnotations sets annotations of an object, removes those with an empty text, and changes nothing else. It fails
// with a conflict if the live annotations are not those of read, so that no decision is based on an outdated state.
// Other concurrent changes of the object are no conflict: a condition on the resource version would fail whenever any
// other writer is faster.
func (c *Client) patchAnnotations(ctx context.Context, read *object, annotations map[string]string) error {
	patch, err := annotationPatch(read, annotations)
	if err != nil {
		return err
	}
	_, err = c.decode(c.api.Do(ctx, kube.Request{
		Verb: http.MethodPatch, Path: c.kind.path(read.name), Query: map[string]string{"fieldManager": FieldManager},
		ContentType: string(types.JSONPatchType), Body: patch,
	}))
	if isPatchTestFailure(err) {
		resource := schema.GroupResource{Group: httpv1alpha1.Group, Resource: c.kind.resource}
		return apierrors.NewConflict(resource, read.name.Name, fmt.Errorf("its annotations have been modified: %w", err))
	}
	return err
}

// isPatchTestFailure reports whether err means that a test in a JSON patch failed: code 422 without the kind that the
// error of an invalid object has (k8s.io/apiserver endpoints/handlers/patch.go, applyJSPatch).
func isPatchTestFailure(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details == nil || details.Kind == ""
}

// patchOperation is one operation of a JSON patch (RFC 6902).
type patchOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// annotationPatch returns a JSON patch of annotations that first tests whether they are those of read. A test for null
// succeeds if there is no value.
func annotationPatch(read *object, annotations map[string]string) ([]byte, error) {
	const root = "/metadata/annotations"
	var tests, changes []patchOperation
	if !read.hasAnnotations {
		tests, changes = []patchOperation{{"test", root, nil}}, []patchOperation{{"add", root, map[string]string{}}}
	}
	current := map[string]any{}
	if read.hasWeightedBackends {
		current[httpv1alpha1.AnnotationWeightedBackends] = read.weightedBackends
	}
	if read.hasManagedRoutes {
		current[httpv1alpha1.AnnotationManagedRoutes] = read.managedRoutes
	}
	if read.hasStickiness {
		current[httpv1alpha1.AnnotationStickiness] = read.stickiness
	}
	if read.hasOwner {
		current[httpv1alpha1.AnnotationWeightedBackendsOwner] = read.owner
	}
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		at := root + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		if read.hasAnnotations {
			tests = append(tests, patchOperation{"test", at, current[name]})
		}
		switch text := annotations[name]; {
		case text != "":
			changes = append(changes, patchOperation{"add", at, text})
		case current[name] != nil:
			changes = append(changes, patchOperation{"remove", at, nil})
		}
	}
	patch, err := json.Marshal(append(tests, changes...))
	if err != nil {
		return nil, fmt.Errorf("patch of annotations: %w", err)
	}
	return patch, nil
}
