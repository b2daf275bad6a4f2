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

// Client reads HTTPScaledObjects and writes their annotations. It connects at its first call. While the configuration cannot be found or used, each call
// fails with the reason, and the next one looks again. It asks once and reports what happened: client-go's own repetitions, at least a second apart, are off.
type Client struct {
	config func() (*rest.Config, error)

	mu   sync.Mutex
	rest *rest.RESTClient // nil until configured
}

// NewClient returns a Client that reaches the API server as config says. config is called until it has succeeded once.
func NewClient(config func() (*rest.Config, error)) *Client {
	return &Client{config: config}
}

// Get reads one object from the API server, not from a cache. Its errors are those of k8s.io/apimachinery/pkg/api/errors or of the connection.
func (c *Client) Get(ctx context.Context, name types.NamespacedName) (*httpv1alpha1.HTTPScaledObject, error) {
	client, err := c.connection()
	if err != nil {
		return nil, err
	}
	object := new(httpv1alpha1.HTTPScaledObject)
	err = client.Get().MaxRetries(0).Namespace(name.Namespace).Resource(httpv1alpha1.Resource).Name(name.Name).Do(ctx).Into(object)
	if err != nil {
		return nil, err
	}
	return object, nil
}

// Annotate sets one annotation of object to text, or removes it when text is empty, and touches nothing else. It fails with a conflict when the live object
// is no longer the one that was read, so that no decision rests on an old state.
func (c *Client) Annotate(ctx context.Context, object *httpv1alpha1.HTTPScaledObject, annotation, text string) error {
	client, err := c.connection()
	if err != nil {
		return err
	}
	patch, err := annotationPatch(object.ResourceVersion, annotation, text)
	if err != nil {
		return err
	}
	return client.Patch(types.MergePatchType).MaxRetries(0).
		Namespace(object.Namespace).Resource(httpv1alpha1.Resource).Name(object.Name).
		VersionedParams(&metav1.PatchOptions{FieldManager: FieldManager}, metav1.ParameterCodec).
		Body(patch).Do(ctx).Error()
}

// annotationPatch is a JSON merge patch (RFC 7386) of a single annotation; null removes it. The API server compares a resource version in it with the
// live object's.
func annotationPatch(resourceVersion, annotation, text string) ([]byte, error) {
	var value any
	if text != "" {
		value = text
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": resourceVersion,
		"annotations":     map[string]any{annotation: value},
	}})
	if err != nil {
		return nil, fmt.Errorf("patch of annotation %s: %w", annotation, err)
	}
	return patch, nil
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
