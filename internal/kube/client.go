package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// Client sends requests to the API server, in JSON. It loads its configuration at the first request. While the
// configuration is missing or invalid, each request fails with the reason and the next one loads it again. It sends a
// request once: client-go's own retries, at least a second apart, are off.
//
// Its scheme contains only Status, the type of API errors, which keeps plugin binaries small. Its errors are those of
// k8s.io/apimachinery/pkg/api/errors or of the connection.
type Client struct {
	config func() (*rest.Config, error)

	mu   sync.Mutex
	rest rest.Interface // nil until configured
}

// NewClient returns a Client for the API server in the result of config. config is called until it succeeds.
func NewClient(config func() (*rest.Config, error)) *Client {
	return &Client{config: config}
}

// Request is one request to the API server.
type Request struct {
	// Verb is the HTTP method; empty means GET.
	Verb string
	// Path are the segments of the absolute path.
	Path []string
	// Query are the query's parameters.
	Query map[string]string
	// ContentType is the media type of Body; empty means JSON.
	ContentType string
	// Body is the body of the request, nil for none.
	Body []byte
}

// Do sends a request and returns the body of the response.
func (c *Client) Do(ctx context.Context, r Request) ([]byte, error) {
	request, err := c.request(r)
	if err != nil {
		return nil, err
	}
	result := request.Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err
	}
	return result.Raw()
}

// Stream sends a request and returns the body of the response as a stream. The caller closes it.
func (c *Client) Stream(ctx context.Context, r Request) (io.ReadCloser, error) {
	request, err := c.request(r)
	if err != nil {
		return nil, err
	}
	return request.Stream(ctx)
}

// Get decodes the object at path into target, a struct with the fields that the caller needs.
func (c *Client) Get(ctx context.Context, target any, path ...string) error {
	body, err := c.Do(ctx, Request{Path: path})
	if err != nil {
		return err
	}
	return json.Unmarshal(body, target)
}

// Create creates an object in the collection at path.
func (c *Client) Create(ctx context.Context, created any, path ...string) error {
	body, err := json.Marshal(created)
	if err != nil {
		return err
	}
	_, err = c.Do(ctx, Request{Verb: http.MethodPost, Path: path, Body: body})
	return err
}

// request converts a Request to a request of client-go.
func (c *Client) request(r Request) (*rest.Request, error) {
	client, err := c.connection()
	if err != nil {
		return nil, err
	}
	verb := r.Verb
	if verb == "" {
		verb = http.MethodGet
	}
	request := client.Verb(verb).MaxRetries(0).AbsPath(r.Path...)
	for name, value := range r.Query {
		request.Param(name, value)
	}
	if r.Body != nil {
		contentType := r.ContentType
		if contentType == "" {
			contentType = runtime.ContentTypeJSON
		}
		request.SetHeader("Content-Type", contentType).Body(r.Body)
	}
	return request, nil
}

// connection returns the REST client and creates it if there is none yet. It opens no connection, so callers don't
// wait.
func (c *Client) connection() (rest.Interface, error) {
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

// restClient returns a client whose scheme contains only Status.
func restClient(config *rest.Config) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"}) // Status
	untyped := rest.CopyConfig(config)
	untyped.ContentType = runtime.ContentTypeJSON
	untyped.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.HTTPClientFor(untyped)
	if err != nil {
		return nil, err
	}
	if untyped.ExecProvider != nil {
		client.Transport = boundedTransport{next: client.Transport, plugin: untyped.ExecProvider.Command}
	}
	return rest.UnversionedRESTClientForConfigAndClient(untyped, client)
}
