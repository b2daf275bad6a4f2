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

// Client asks the API server, in JSON. It connects at its first request. While the configuration cannot be found or
// used, each request fails with the reason, and the next one looks again. It asks once and reports what happened:
// client-go's own repetitions, at least a second apart, are off.
//
// It knows no types but Status, the API server's word for an error, which keeps plugin binaries small. Its errors are
// those of k8s.io/apimachinery/pkg/api/errors or of the connection.
type Client struct {
	config func() (*rest.Config, error)

	mu   sync.Mutex
	rest rest.Interface // nil until configured
}

// NewClient returns a Client that reaches the API server as config says. config is called until it has succeeded once.
func NewClient(config func() (*rest.Config, error)) *Client {
	return &Client{config: config}
}

// Request is one request to the API server.
type Request struct {
	// Verb is the HTTP method; empty means GET.
	Verb string
	// Path are the segments of the path, from the root on.
	Path []string
	// Query are the query's parameters.
	Query map[string]string
	// ContentType names the notation of Body; empty means JSON.
	ContentType string
	// Body is what is sent, if anything.
	Body []byte
}

// Do sends a request and returns the body of its answer.
func (c *Client) Do(ctx context.Context, asked Request) ([]byte, error) {
	request, err := c.request(asked)
	if err != nil {
		return nil, err
	}
	result := request.Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err
	}
	return result.Raw()
}

// Stream sends a request and returns the body of its answer as it comes. The caller closes it.
func (c *Client) Stream(ctx context.Context, asked Request) (io.ReadCloser, error) {
	request, err := c.request(asked)
	if err != nil {
		return nil, err
	}
	return request.Stream(ctx)
}

// Get reads what is at path into target, a struct with the fields that matter.
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

// request is asked in the form in which client-go sends it.
func (c *Client) request(asked Request) (*rest.Request, error) {
	client, err := c.connection()
	if err != nil {
		return nil, err
	}
	verb := asked.Verb
	if verb == "" {
		verb = http.MethodGet
	}
	request := client.Verb(verb).MaxRetries(0).AbsPath(asked.Path...)
	for name, value := range asked.Query {
		request.Param(name, value)
	}
	if asked.Body != nil {
		contentType := asked.ContentType
		if contentType == "" {
			contentType = runtime.ContentTypeJSON
		}
		request.SetHeader("Content-Type", contentType).Body(asked.Body)
	}
	return request, nil
}

// connection returns the REST client, setting it up if that has not succeeded before. Nothing is contacted here, so
// callers wait for no one.
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

// restClient is a client without types of its own.
func restClient(config *rest.Config) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"}) // Status
	own := rest.CopyConfig(config)
	own.ContentType = runtime.ContentTypeJSON
	own.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.HTTPClientFor(own)
	if err != nil {
		return nil, err
	}
	if own.ExecProvider != nil {
		client.Transport = patient{next: client.Transport, program: own.ExecProvider.Command}
	}
	return rest.UnversionedRESTClientForConfigAndClient(own, client)
}
