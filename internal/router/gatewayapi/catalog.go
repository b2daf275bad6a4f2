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

// catalogTTL is how long a catalog entry is valid: the CustomResourceDefinitions of the Gateway API may be replaced at
// any time.
const catalogTTL = 10 * time.Minute

// missingFieldTTL is how long a catalog entry is valid for a Rollout that needs a field that the entry does not have:
// the user may be about to install other CustomResourceDefinitions.
const missingFieldTTL = 10 * time.Second

// errNotServed means that the cluster does not serve a kind of route.
var errNotServed = errors.New("the cluster does not serve it")

// errNoSchema means that the API server has not published the schema of a kind, which takes some seconds after the
// CustomResourceDefinition is installed.
var errNoSchema = errors.New("the API server has not published its schema yet")

// servedKind is the served version of a kind of route and the optional fields of its schema.
type servedKind struct {
	version          string // e.g. v1
	hasRuleNames     bool   // the schema has spec.rules[].name; otherwise the API server prunes the field
	hasMirrorPercent bool   // the schema has spec.rules[].filters[].requestMirror.percent
	hasSessions      bool   // the schema has spec.rules[].sessionPersistence, or may not be read
}

// versions returns the versions of the Gateway API that have all fields that this router uses, best first.
func versions() []string { return []string{"v1", "v1beta1", "v1alpha3", "v1alpha2"} }

// catalog caches which kinds of routes the cluster serves.
type catalog struct {
	client *kube.Client

	mu    sync.Mutex
	kinds map[route.Kind]catalogEntry
}

// catalogEntry is an entry of the catalog.
type catalogEntry struct {
	servedKind

	read time.Time
}

func newCatalog(client *kube.Client) *catalog {
	return &catalog{client: client, kinds: map[route.Kind]catalogEntry{}}
}

// lookup returns what the cluster serves of kind. If discovery fails, it returns the previous result.
func (c *catalog) lookup(ctx context.Context, kind route.Kind) (servedKind, error) {
	return c.lookupWithin(ctx, kind, catalogTTL)
}

// lookupWithin is lookup with a result that is not older than maxAge, if discovery succeeds.
func (c *catalog) lookupWithin(ctx context.Context, kind route.Kind, maxAge time.Duration) (servedKind, error) {
	c.mu.Lock()
	previous, ok := c.kinds[kind]
	c.mu.Unlock()
	if ok && time.Since(previous.read) < maxAge {
		return previous.servedKind, nil
	}
	discovered, err := c.discover(ctx, kind)
	if err != nil {
		if ok && !errors.Is(err, errNotServed) {
			return previous.servedKind, nil
		}
		return servedKind{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kinds[kind] = catalogEntry{servedKind: discovered, read: time.Now()}
	return discovered, nil
}

// invalidate makes the next lookup discover kind again.
func (c *catalog) invalidate(kind route.Kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.kinds, kind)
}

// discover reads the best served version of kind and its schema from the API server.
func (c *catalog) discover(ctx context.Context, kind route.Kind) (servedKind, error) {
	var offered metav1.APIGroup
	err := c.client.Get(ctx, &offered, "apis", group)
	switch {
	case apierrors.IsNotFound(err):
		return servedKind{}, fmt.Errorf("%w: it has no CustomResourceDefinitions of the Gateway API", errNotServed)
	case err != nil:
		return servedKind{}, fmt.Errorf("discover %s: %w", group, err)
	}
	for _, version := range versions() {
		hasVersion := func(v metav1.GroupVersionForDiscovery) bool { return v.Version == version }
		if !slices.ContainsFunc(offered.Versions, hasVersion) {
			continue
		}
		var resources metav1.APIResourceList
		if err := c.client.Get(ctx, &resources, "apis", group, version); err != nil {
			return servedKind{}, fmt.Errorf("discover %s/%s: %w", group, version, err)
		}
		if slices.ContainsFunc(resources.APIResources, func(r metav1.APIResource) bool { return r.Name == kind.Resource() }) {
			return c.readSchema(ctx, kind, version)
		}
	}
	return servedKind{}, fmt.Errorf("%w in a supported version (%s)", errNotServed, strings.Join(versions(), ", "))
}

// readSchema reads which optional fields the schema of kind has. If the schema may not be read, they count as missing:
// everything works without them, except percentages of mirror routes. Sessions count as present, because the API server
// rejects a write of them without the field (see Client.update).
func (c *catalog) readSchema(ctx context.Context, kind route.Kind, version string) (servedKind, error) {
	body, err := c.client.Do(ctx, kube.Request{Path: []string{"openapi", "v3", "apis", group, version}})
	switch {
	case apierrors.IsForbidden(err):
		return servedKind{version: version, hasSessions: true}, nil
	case apierrors.IsNotFound(err): // The kind is served already; a result without schema would be cached for catalogTTL.
		return servedKind{}, fmt.Errorf("%s %s/%s: %w", kind, group, version, errNoSchema)
	case err != nil:
		return servedKind{}, fmt.Errorf("the schema of %s/%s: %w", group, version, err)
	}
	rule, err := ruleSchema(body, kind, version)
	if err != nil {
		return servedKind{}, err
	}
	return servedKind{
		version:          version,
		hasRuleNames:     rule.field("name") != nil,
		hasMirrorPercent: rule.field("filters", "requestMirror", "percent") != nil,
		hasSessions:      rule.field("sessionPersistence") != nil,
	}, nil
}

// schema is the part of an OpenAPI v3 schema that lists its fields.
type schema struct {
	Properties map[string]*schema        `json:"properties"`
	Items      *schema                   `json:"items"`
	Kinds      []metav1.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
}

// field returns the schema of the field at path, in which a list stands for its elements; nil if there is no such
// field.
func (s *schema) field(path ...string) *schema {
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

// ruleSchema returns the schema of spec.rules of kind in an OpenAPI v3 document.
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
		if rules := candidate.field("spec", "rules"); rules != nil && rules.Items != nil {
			return rules.Items, nil
		}
	}
	return nil, fmt.Errorf("%s %s/%s: %w", kind, group, version, errNoSchema)
}
