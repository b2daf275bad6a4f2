package httpso

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// FieldManager is the name under which the API server records what this router writes (metadata.managedFields).
const FieldManager = "rollouts-plugin-kedify"

// Client reads HTTPScaledObjects and writes their annotations, and reads the few other objects that this router has to know about. It connects at its first
// call. While the configuration cannot be found or used, each call fails with the reason, and the next one looks again. It asks once and reports what
// happened: client-go's own repetitions, at least a second apart, are off.
//
// What it reads and writes of HTTPScaledObjects goes into a cache, which Watch keeps up to date; without Watch, every read is a request.
type Client struct {
	config func() (*rest.Config, error)
	cache  *cache

	mu   sync.Mutex
	rest *rest.RESTClient // nil until configured
}

// NewClient returns a Client that reaches the API server as config says. config is called until it has succeeded once.
func NewClient(config func() (*rest.Config, error)) *Client {
	return &Client{config: config, cache: newCache()}
}

// get reads one object from the API server, not from the cache. Its errors are those of k8s.io/apimachinery/pkg/api/errors or of the connection.
func (c *Client) get(ctx context.Context, name types.NamespacedName) (*object, error) {
	client, err := c.connection()
	if err != nil {
		return nil, err
	}
	answer := new(httpv1alpha1.HTTPScaledObject)
	err = client.Get().MaxRetries(0).Namespace(name.Namespace).Resource(httpv1alpha1.Resource).Name(name.Name).Do(ctx).Into(answer)
	if err != nil {
		return nil, err
	}
	return c.cache.put(objectOf(answer)), nil
}

// recent returns an object from the cache where that can be believed, else from the API server; cached tells which. That an object does not exist is always
// the API server's word.
func (c *Client) recent(ctx context.Context, name types.NamespacedName) (state *object, cached bool, err error) {
	if known, believed := c.cache.get(name); believed && known != nil {
		return known, true, nil
	}
	state, err = c.get(ctx, name)
	return state, false, err
}

// annotate sets annotations of an object, or removes those without a text, and touches nothing else. It fails with a conflict when the live object is no longer
// the one that was read, so that no decision rests on an old state.
func (c *Client) annotate(ctx context.Context, read *object, annotations map[string]string) error {
	client, err := c.connection()
	if err != nil {
		return err
	}
	patch, err := annotationPatch(read.resourceVersion, annotations)
	if err != nil {
		return err
	}
	answer := new(httpv1alpha1.HTTPScaledObject)
	err = client.Patch(types.MergePatchType).MaxRetries(0).
		Namespace(read.name.Namespace).Resource(httpv1alpha1.Resource).Name(read.name.Name).
		VersionedParams(&metav1.PatchOptions{FieldManager: FieldManager}, metav1.ParameterCodec).
		Body(patch).Do(ctx).Into(answer)
	if err != nil {
		return err
	}
	c.cache.put(objectOf(answer))
	return nil
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

// lookUp reads an object of another kind from the API server into target, a struct with the fields that matter.
func (c *Client) lookUp(ctx context.Context, target any, path ...string) error {
	client, err := c.connection()
	if err != nil {
		return err
	}
	body, err := client.Get().MaxRetries(0).AbsPath(path...).Do(ctx).Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(body, target)
}

// create creates an object of another kind.
func (c *Client) create(ctx context.Context, created any, path ...string) error {
	client, err := c.connection()
	if err != nil {
		return err
	}
	body, err := json.Marshal(created)
	if err != nil {
		return err
	}
	return client.Post().MaxRetries(0).AbsPath(path...).Body(body).Do(ctx).Error()
}

// connection returns the REST client, setting it up if that has not succeeded before. Nothing is contacted here, so callers wait for no one.
func (c *Client) connection() (*rest.RESTClient, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rest != nil {
		return c.rest, nil
	}
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	client, err := restClient(config)
	if err != nil {
		return nil, fmt.Errorf("connection to the API server %s: %w", config.Host, err)
	}
	c.rest = client
	return client, nil
}

// restClient is a client for the API group of HTTPScaledObjects, in JSON. It knows nothing of other groups, which keeps the plugin binary small.
func restClient(config *rest.Config) (*rest.RESTClient, error) {
	scheme := runtime.NewScheme()
	if err := httpv1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	group := httpv1alpha1.SchemeGroupVersion
	own := rest.CopyConfig(config)
	own.GroupVersion = &group
	own.APIPath = "/apis"
	own.ContentType = runtime.ContentTypeJSON
	own.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	return rest.RESTClientFor(own)
}
