package gatewayapi

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// object is a route as it was read. It never changes once made.
type object struct {
	name    types.NamespacedName
	version string // resource version
	labels  labels.Set
	content map[string]any // the whole object
}

// Name is the route's namespace and name.
func (o *object) Name() types.NamespacedName { return o.name }

// Version is the route's resource version.
func (o *object) Version() string { return o.version }

// parseObject takes a route in JSON, its numbers as int64 and float64.
func parseObject(document []byte) (*object, error) {
	var content map[string]any
	if err := utiljson.Unmarshal(document, &content); err != nil {
		return nil, fmt.Errorf("not a route: %w", err)
	}
	read := unstructured.Unstructured{Object: content}
	return &object{
		name:    types.NamespacedName{Namespace: read.GetNamespace(), Name: read.GetName()},
		version: read.GetResourceVersion(), labels: read.GetLabels(), content: content,
	}, nil
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
		read, err := parseObject(item)
		if err != nil {
			return nil, err
		}
		objects = append(objects, read)
	}
	return objects, nil
}
