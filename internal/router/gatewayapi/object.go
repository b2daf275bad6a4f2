package gatewayapi

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
)

// object is a route as it was read. It never changes once made.
type object struct {
	name    types.NamespacedName
	version string // resource version
	labels  labels.Set
	owners  []string       // the Rollouts that its record names, as namespace/name
	made    time.Time      // metadata.creationTimestamp
	content map[string]any // the whole object; nil where nobody uses the route
	found   *sync.Map      // the plain Intents that the route was found to be as; nil beside a nil content
}

// Name is the route's namespace and name.
func (o *object) Name() types.NamespacedName { return o.name }

// Version is the route's resource version.
func (o *object) Version() string { return o.version }

// Whole says whether the route's content is known.
func (o *object) Whole() bool { return o.content != nil }

// Marks are the Rollouts that its record names.
func (o *object) Marks() []string { return o.owners }

// after returns the object as the state that follows known. Of one version, the state with a content is kept.
func (o *object) after(known *object) *object {
	if o.content == nil && o.version == known.version {
		return known
	}
	return o
}

// parseHead takes from a route in JSON what is kept of routes that nobody uses: a cluster may have thousands.
func parseHead(document []byte) (*object, error) {
	var head struct {
		Metadata struct {
			Namespace         string            `json:"namespace"`
			Name              string            `json:"name"`
			ResourceVersion   string            `json:"resourceVersion"`
			CreationTimestamp metav1.Time       `json:"creationTimestamp"`
			Labels            map[string]string `json:"labels"`
			Annotations       map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(document, &head); err != nil {
		return nil, fmt.Errorf("not a route: %w", err)
	}
	read := head.Metadata
	return &object{
		name: types.NamespacedName{Namespace: read.Namespace, Name: read.Name}, version: read.ResourceVersion, labels: read.Labels,
		owners: route.Owners(read.Annotations[route.Annotation]), made: read.CreationTimestamp.Time,
	}, nil
}

// parseObject takes a route in JSON.
func parseObject(document []byte) (*object, error) {
	head, err := parseHead(document)
	if err != nil {
		return nil, err
	}
	return head.whole(document)
}

// whole is the route with its content, of the document that the head is of; its numbers are int64 and float64. Its managedFields are left out: they are mostly longer
// than the rest, nobody asks for them, and the API server keeps those of a route that is written without any (k8s.io/apimachinery,
// managedfields/internal/fieldmanager.go, Update).
func (o *object) whole(document []byte) (*object, error) {
	read := *o
	if err := utiljson.Unmarshal(document, &read.content); err != nil {
		return nil, fmt.Errorf("not a route: %w", err)
	}
	if fields, is := read.content["metadata"].(map[string]any); is {
		delete(fields, "managedFields")
	}
	read.found = new(sync.Map)
	return &read, nil
}

// parseList takes a list of routes in JSON.
func parseList(document []byte) ([]*object, error) {
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(document, &list); err != nil {
		return nil, fmt.Errorf("not a list of routes: %w", err)
	}
	objects := make([]*object, 0, len(list.Items))
	for _, item := range list.Items {
		read, err := parseHead(item)
		if err != nil {
			return nil, err
		}
		objects = append(objects, read)
	}
	return objects, nil
}
