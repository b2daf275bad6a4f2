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

// FieldManager is the field manager of this router's writes (metadata.managedFields).
const FieldManager = "rollouts-plugin-kedify"

// Client reads HTTPScaledObjects and writes their annotations. It connects in its first call, like kube.Client.
//
// All states that it reads and writes go to a cache, which Watch keeps up to date. Without Watch, each read is a
// request.
type Client struct {
	api   *kube.Client
	cache *kube.Cache[*object]
}

// NewClient returns a Client for the API server of config, which is called until it succeeds once.
func NewClient(config func() (*rest.Config, error)) *Client {
	return &Client{api: kube.NewClient(config), cache: kube.NewCache((*object).after)}
}

// Watch keeps the Client's cache up to date until ctx ends, by a watch of all HTTPScaledObjects. While the watch is
// down, each read is a request. It must be called once.
func (c *Client) Watch(ctx context.Context, log *slog.Logger) {
	c.cache.Follow(ctx, kube.Source[*object]{
		Client: c.api,
		Path: func(context.Context) ([]string, error) {
			return []string{"apis", httpv1alpha1.Group, httpv1alpha1.Version, httpv1alpha1.Resource}, nil
		},
		Decode: parseObject,
		Title:  "HTTPScaledObjects", Fallback: kube.ReadPerCall,
		Fixes: kube.Fixes{
			NotFound: "install the CustomResourceDefinition httpscaledobjects.http.keda.sh",
			Forbidden: "allow the controller's ServiceAccount to list and watch httpscaledobjects in all namespaces: apply " +
				"the ClusterRole " +
				"argo-rollouts-kedify-http",
		},
	}, log)
}

// path returns the API path of an HTTPScaledObject, or of those of a namespace if name.Name is empty.
func path(name types.NamespacedName) []string {
	segments := []string{
		"apis", httpv1alpha1.Group, httpv1alpha1.Version, "namespaces", name.Namespace,
		httpv1alpha1.Resource,
	}
	if name.Name != "" {
		segments = append(segments, name.Name)
	}
	return segments
}

// getLive reads one object from the API server, not from the cache.
func (c *Client) getLive(ctx context.Context, name types.NamespacedName) (*object, error) {
	return c.decode(c.api.Do(ctx, kube.Request{Path: path(name)}))
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

// decode parses an HTTPScaledObject in a response of the API server and adds it to the cache.
func (c *Client) decode(document []byte, err error) (*object, error) {
	if err != nil {
		return nil, err
	}
	live, err := parseObject(document)
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
		Verb: http.MethodPatch, Path: path(read.name), Query: map[string]string{"fieldManager": FieldManager},
		ContentType: string(types.JSONPatchType), Body: patch,
	}))
	if isPatchTestFailure(err) {
		resource := schema.GroupResource{Group: httpv1alpha1.Group, Resource: httpv1alpha1.Resource}
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
