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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// FieldManager is the name under which the API server records what this router writes (metadata.managedFields).
const FieldManager = "rollouts-plugin-kedify"

// Client reads HTTPScaledObjects and writes their annotations. It connects at its first call, as apiserver.Client has it.
//
// What it reads and writes goes into a cache, which Watch keeps up to date; without Watch, every read is a request.
type Client struct {
	api   *kube.Client
	cache *kube.Cache[*object]
}

// NewClient returns a Client that reaches the API server as config says. config is called until it has succeeded once.
func NewClient(config func() (*rest.Config, error)) *Client {
	return &Client{api: kube.NewClient(config), cache: kube.NewCache((*object).after)}
}

// Watch keeps the Client's cache until ctx ends, by a watch on every HTTPScaledObject. While it cannot, reads go to the API server one by one. To be called
// once.
func (c *Client) Watch(ctx context.Context, log *slog.Logger) {
	c.cache.Follow(ctx, kube.Source[*object]{
		Client: c.api,
		Path: func(context.Context) ([]string, error) {
			return []string{"apis", httpv1alpha1.Group, httpv1alpha1.Version, httpv1alpha1.Resource}, nil
		},
		Decode: parseObject,
		Title:  "HTTPScaledObjects", Meanwhile: kube.EachCallReads,
		Remedies: kube.Remedies{
			NotFound: "install the CustomResourceDefinition httpscaledobjects.http.keda.sh",
			Forbidden: "allow the controller's ServiceAccount to list and watch httpscaledobjects in all namespaces: apply the ClusterRole " +
				"argo-rollouts-kedify-http",
		},
	}, log)
}

// path is where an HTTPScaledObject is, or, without a name, where those of a namespace are.
func path(name types.NamespacedName) []string {
	path := []string{"apis", httpv1alpha1.Group, httpv1alpha1.Version, "namespaces", name.Namespace, httpv1alpha1.Resource}
	if name.Name != "" {
		path = append(path, name.Name)
	}
	return path
}

// get reads one object from the API server, not from the cache.
func (c *Client) get(ctx context.Context, name types.NamespacedName) (*object, error) {
	return c.answered(c.api.Do(ctx, kube.Request{Path: path(name)}))
}

// list reads the objects of a namespace from the API server.
func (c *Client) list(ctx context.Context, namespace string) (objects []*object, err error) {
	err = kube.Retry(ctx, func(ctx context.Context) error {
		var all struct {
			Items []json.RawMessage `json:"items"`
		}
		body, err := c.api.Do(ctx, kube.Request{Path: path(types.NamespacedName{Namespace: namespace})})
		if err == nil {
			err = json.Unmarshal(body, &all)
		}
		objects = nil
		for _, item := range all.Items {
			live, wrong := c.answered(item, nil)
			if wrong != nil {
				return wrong
			}
			objects = append(objects, live)
		}
		return err
	})
	return objects, err
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

// annotate sets annotations of an object, or removes those without a text, and touches nothing else. It fails with a conflict when the live object's are no longer
// what was read, so that no decision rests on an old state. What others write to the object meanwhile is no conflict: ten of them who never pause would win
// against a resource version each time.
func (c *Client) annotate(ctx context.Context, read *object, annotations map[string]string) error {
	patch, err := annotationPatch(read, annotations)
	if err != nil {
		return err
	}
	_, err = c.answered(c.api.Do(ctx, kube.Request{
		Verb: http.MethodPatch, Path: path(read.name), Query: map[string]string{"fieldManager": FieldManager},
		ContentType: string(types.JSONPatchType), Body: patch,
	}))
	if isTestFailed(err) {
		resource := schema.GroupResource{Group: httpv1alpha1.Group, Resource: httpv1alpha1.Resource}
		return apierrors.NewConflict(resource, read.name.Name, fmt.Errorf("its annotations have been modified: %w", err))
	}
	return err
}

// isTestFailed says whether err is the API server's word that a test in a JSON patch failed: 422 without the kind that an invalid object's has (k8s.io/apiserver
// endpoints/handlers/patch.go, applyJSPatch).
func isTestFailed(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details == nil || details.Kind == ""
}

// operation is one of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// annotationPatch is a JSON patch of annotations that tests first whether they are as they were read. A test for null holds where there is nothing.
func annotationPatch(read *object, annotations map[string]string) ([]byte, error) {
	const all = "/metadata/annotations"
	var tests, changes []operation
	if !read.annotated {
		tests, changes = []operation{{"test", all, nil}}, []operation{{"add", all, map[string]string{}}}
	}
	known := map[string]any{}
	if read.present {
		known[httpv1alpha1.AnnotationWeightedBackends] = read.text
	}
	if read.isManaged {
		known[httpv1alpha1.AnnotationManagedRoutes] = read.managed
	}
	if read.owned {
		known[httpv1alpha1.AnnotationWeightedBackendsOwner] = read.owner
	}
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		at := all + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		if read.annotated {
			tests = append(tests, operation{"test", at, known[name]})
		}
		switch text := annotations[name]; {
		case text != "":
			changes = append(changes, operation{"add", at, text})
		case known[name] != nil:
			changes = append(changes, operation{"remove", at, nil})
		}
	}
	patch, err := json.Marshal(append(tests, changes...))
	if err != nil {
		return nil, fmt.Errorf("patch of annotations: %w", err)
	}
	return patch, nil
}
