package gatewayapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
)

// group is the API group of the Gateway API.
const group = "gateway.networking.k8s.io"

// catalogAge is how long the catalog is believed: somebody may install other CustomResourceDefinitions of the Gateway API at any time.
const catalogAge = 10 * time.Minute

// errNotServed says that the cluster has no such kind of route.
var errNotServed = errors.New("the cluster does not serve it")

// errNoSchema says that the API server has not published the schema of a kind, which it does some seconds after the CustomResourceDefinition is installed.
var errNoSchema = errors.New("the API server has not published its schema yet")

// served is what the cluster serves of a kind of route.
type served struct {
	version       string // such as v1
	namedRules    bool   // whether the schema has spec.rules[].name; where it hasn't, the API server drops the field
	mirrorPercent bool   // whether it has spec.rules[].filters[].requestMirror.percent
}

// versions are the versions of the Gateway API in which kinds of routes have the fields that this router knows, best first.
func versions() []string { return []string{"v1", "v1beta1", "v1alpha3", "v1alpha2"} }

// catalog knows what the cluster serves.
type catalog struct {
	client *kube.Client

	mu    sync.Mutex
	kinds map[route.Kind]listing
}

// listing is an entry of the catalog.
type listing struct {
	served

	read time.Time
}

func newCatalog(client *kube.Client) *catalog {
	return &catalog{client: client, kinds: map[route.Kind]listing{}}
}

// of tells what the cluster serves of kind. While it cannot be asked again, the last answer counts.
func (c *catalog) of(ctx context.Context, kind route.Kind) (served, error) {
	c.mu.Lock()
	known, listed := c.kinds[kind]
	c.mu.Unlock()
	if listed && time.Since(known.read) < catalogAge {
		return known.served, nil
	}
	found, err := c.look(ctx, kind)
	if err != nil {
		if listed && !errors.Is(err, errNotServed) {
			return known.served, nil
		}
		return served{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kinds[kind] = listing{served: found, read: time.Now()}
	return found, nil
}

// forget lets the next call ask again.
func (c *catalog) forget(kind route.Kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.kinds, kind)
}

// look asks the API server for the best version of kind that it serves, and for its schema.
func (c *catalog) look(ctx context.Context, kind route.Kind) (served, error) {
	var offered metav1.APIGroup
	err := c.client.Get(ctx, &offered, "apis", group)
	switch {
	case apierrors.IsNotFound(err):
		return served{}, fmt.Errorf("%w: it has no CustomResourceDefinitions of the Gateway API", errNotServed)
	case err != nil:
		return served{}, fmt.Errorf("what the cluster serves of %s: %w", group, err)
	}
	for _, version := range versions() {
		if !slices.ContainsFunc(offered.Versions, func(v metav1.GroupVersionForDiscovery) bool { return v.Version == version }) {
			continue
		}
		var resources metav1.APIResourceList
		if err := c.client.Get(ctx, &resources, "apis", group, version); err != nil {
			return served{}, fmt.Errorf("what the cluster serves of %s/%s: %w", group, version, err)
		}
		if slices.ContainsFunc(resources.APIResources, func(r metav1.APIResource) bool { return r.Name == kind.Resource() }) {
			return c.describe(ctx, kind, version)
		}
	}
	return served{}, fmt.Errorf("%w in a version that this router knows (%s)", errNotServed, strings.Join(versions(), ", "))
}

// describe reads the schema of kind. Where the schema may not be read, it is taken for one without the optional fields, with which everything works but
// percentages of mirror routes.
func (c *catalog) describe(ctx context.Context, kind route.Kind, version string) (served, error) {
	body, err := c.client.Do(ctx, kube.Request{Path: []string{"openapi", "v3", "apis", group, version}})
	switch {
	case apierrors.IsForbidden(err):
		return served{version: version}, nil
	case apierrors.IsNotFound(err): // The kinds are served already: what was found now would be believed for as long as catalogAge.
		return served{}, fmt.Errorf("%s %s/%s: %w", kind, group, version, errNoSchema)
	case err != nil:
		return served{}, fmt.Errorf("the schema of %s/%s: %w", group, version, err)
	}
	rule, err := ruleSchema(body, kind, version)
	if err != nil {
		return served{}, err
	}
	return served{
		version:       version,
		namedRules:    rule.at("name") != nil,
		mirrorPercent: rule.at("filters", "requestMirror", "percent") != nil,
	}, nil
}

// schema is the part of an OpenAPI v3 schema that tells which fields there are.
type schema struct {
	Properties map[string]*schema        `json:"properties"`
	Items      *schema                   `json:"items"`
	Kinds      []metav1.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
}

// at is the schema of the field at path, where lists stand for their elements; nil where there is none.
func (s *schema) at(path ...string) *schema {
	for _, name := range path {
		if s != nil && s.Items != nil {
			s = s.Items
		}
		if s == nil {
			return nil
		}
		s = s.Properties[name]
	}
	return s
}

// ruleSchema finds the schema of spec.rules of kind in an OpenAPI v3 document.
func ruleSchema(document []byte, kind route.Kind, version string) (*schema, error) {
	var parsed struct {
		Components struct {
			Schemas map[string]*schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(document, &parsed); err != nil {
		return nil, fmt.Errorf("the schema of %s/%s: %w", group, version, err)
	}
	wanted := metav1.GroupVersionKind{Group: group, Version: version, Kind: string(kind)}
	for _, candidate := range parsed.Components.Schemas {
		if !slices.Contains(candidate.Kinds, wanted) {
			continue
		}
		if rules := candidate.at("spec", "rules"); rules != nil && rules.Items != nil {
			return rules.Items, nil
		}
	}
	return nil, fmt.Errorf("%s %s/%s: %w", kind, group, version, errNoSchema)
}
