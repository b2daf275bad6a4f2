package httpso

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/router/connect"
	"github.com/kedify/argo-rollouts-plugin/internal/router/resilience"
	"github.com/kedify/argo-rollouts-plugin/internal/router/watchcache"
)

// FieldManager is the name under which the API server records what this router writes (metadata.managedFields).
const FieldManager = "rollouts-plugin-kedify"

// Client reads HTTPScaledObjects and writes their annotations. It connects at its first call, as connect.Client has it.
//
// What it reads and writes goes into a cache, which Watch keeps up to date; without Watch, every read is a request.
type Client struct {
	api   *connect.Client
	cache *watchcache.Cache[*object]
}

// NewClient returns a Client that reaches the API server as config says. config is called until it has succeeded once.
func NewClient(config func() (*rest.Config, error)) *Client {
	return &Client{api: connect.NewClient(config), cache: watchcache.New((*object).after)}
}

// Watch keeps the Client's cache until ctx ends, by a watch on every HTTPScaledObject. While it cannot, reads go to the API server one by one. To be called
// once.
func (c *Client) Watch(ctx context.Context, log *slog.Logger) {
	c.cache.Follow(ctx, watchcache.Source[*object]{
		Client: c.api,
		Path: func(context.Context) ([]string, error) {
			return []string{"apis", httpv1alpha1.Group, httpv1alpha1.Version, httpv1alpha1.Resource}, nil
		},
		Decode: parseObject,
		Title:  "HTTPScaledObjects", Meanwhile: watchcache.EachCallReads,
		Remedies: resilience.Remedies{
			NotFound: "install the CustomResourceDefinition httpscaledobjects.http.keda.sh",
			Forbidden: "allow the controller's ServiceAccount to list and watch httpscaledobjects in all namespaces: apply the ClusterRole " +
				"argo-rollouts-kedify-http",
		},
	}, log)
}

// path is where an HTTPScaledObject is.
func path(name types.NamespacedName) []string {
	return []string{"apis", httpv1alpha1.Group, httpv1alpha1.Version, "namespaces", name.Namespace, httpv1alpha1.Resource, name.Name}
}

// get reads one object from the API server, not from the cache.
func (c *Client) get(ctx context.Context, name types.NamespacedName) (*object, error) {
	return c.answered(c.api.Do(ctx, connect.Request{Path: path(name)}))
}

// answered takes an HTTPScaledObject that the API server answered with.
func (c *Client) answered(document []byte, err error) (*object, error) {
	if err != nil {
		return nil, err
	}
	live, err := parseObject(document)
	if err != nil {
		return nil, err
	}
	return c.cache.Put(live), nil
}

// recent returns an object from the cache where that can be believed, else from the API server; cached tells which. That an object does not exist is always
// the API server's word.
func (c *Client) recent(ctx context.Context, name types.NamespacedName) (state *object, cached bool, err error) {
	return c.cache.Recent(ctx, name, func(ctx context.Context) (*object, error) { return c.get(ctx, name) })
}

// annotate sets annotations of an object, or removes those without a text, and touches nothing else. It fails with a conflict when the live object is no longer
// the one that was read, so that no decision rests on an old state.
func (c *Client) annotate(ctx context.Context, read *object, annotations map[string]string) error {
	patch, err := annotationPatch(read.resourceVersion, annotations)
	if err != nil {
		return err
	}
	_, err = c.answered(c.api.Do(ctx, connect.Request{
		Verb: http.MethodPatch, Path: path(read.name), Query: map[string]string{"fieldManager": FieldManager},
		ContentType: string(types.MergePatchType), Body: patch,
	}))
	return err
}

// annotationPatch is a JSON merge patch (RFC 7386) of annotations; null removes one. The API server compares a resource version in it with the
// live object's.
func annotationPatch(resourceVersion string, annotations map[string]string) ([]byte, error) {
	values := make(map[string]any, len(annotations))
	for name, text := range annotations {
		values[name] = text
		if text == "" {
			values[name] = nil
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": resourceVersion, "annotations": values}})
	if err != nil {
		return nil, fmt.Errorf("patch of annotations: %w", err)
	}
	return patch, nil
}
