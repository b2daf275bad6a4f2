package gatewayapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
)

// object is a route as it was read. It is immutable.
type object struct {
	name            types.NamespacedName
	resourceVersion string
	labels          labels.Set
	owners          []string       // the Rollouts in its record, as namespace/name
	created         time.Time      // metadata.creationTimestamp
	ownsFields      bool           // metadata.managedFields has an entry of this router
	content         map[string]any // the whole object; nil if no Rollout uses the route
	matched         *sync.Map      // the intentKeys that the content is known to match; nil if content is nil
}

// Name returns the route's namespace and name.
func (o *object) Name() types.NamespacedName { return o.name }

// Version returns the route's resource version.
func (o *object) Version() string { return o.resourceVersion }

// IsComplete reports whether the route's content is known.
func (o *object) IsComplete() bool { return o.content != nil }

// IndexKeys returns the Rollouts in the route's record.
func (o *object) IndexKeys() []string { return o.owners }

// ownsFieldsAtRest reports whether this router owns fields of the route although no Rollout is active on it.
func (o *object) ownsFieldsAtRest() bool { return o.ownsFields && len(o.owners) == 0 }

// after returns the object as the successor of previous. Of two states with the same resource version, the one with
// content is kept.
func (o *object) after(previous *object) *object {
	if o.content == nil && o.resourceVersion == previous.resourceVersion {
		return previous
	}
	return o
}

// parseHead parses the fields of a route in JSON that are cached for routes that no Rollout uses: a cluster may have
// thousands.
func parseHead(document []byte) (*object, error) {
	var head struct {
		Metadata struct {
			Namespace         string            `json:"namespace"`
			Name              string            `json:"name"`
			ResourceVersion   string            `json:"resourceVersion"`
			CreationTimestamp metav1.Time       `json:"creationTimestamp"`
			Labels            map[string]string `json:"labels"`
			Annotations       map[string]string `json:"annotations"`
			ManagedFields     []fieldsEntry     `json:"managedFields"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(document, &head); err != nil {
		return nil, fmt.Errorf("not a route: %w", err)
	}
	metadata := head.Metadata
	return &object{
		name:            types.NamespacedName{Namespace: metadata.Namespace, Name: metadata.Name},
		resourceVersion: metadata.ResourceVersion,
		labels:          metadata.Labels,
		owners:          route.Owners(metadata.Annotations[route.Annotation]),
		created:         metadata.CreationTimestamp.Time,
		ownsFields:      slices.ContainsFunc(metadata.ManagedFields, fieldsEntry.isOwn),
	}, nil
}

// fieldsEntry is the part of an entry of metadata.managedFields that is read.
type fieldsEntry struct {
	Manager     string `json:"manager"`
	Subresource string `json:"subresource"`
}

// isOwn reports whether the entry is of this router's writes, including those of earlier versions.
func (e fieldsEntry) isOwn() bool {
	return (e.Manager == FieldManager || e.Manager == EarlierFieldManager) && e.Subresource == ""
}

// parseObject parses a route in JSON with its content.
func parseObject(document []byte) (*object, error) {
	head, err := parseHead(document)
	if err != nil {
		return nil, err
	}
	return head.withContent(document)
}

// withContent returns the route with its content, from the document that o was parsed from; numbers are int64 and
// float64. It drops managedFields: they are mostly longer than the rest, are not used, and the API server keeps those
// of a route that is written without any (k8s.io/apimachinery, managedfields/internal/fieldmanager.go, Update).
func (o *object) withContent(document []byte) (*object, error) {
	full := *o
	if err := utiljson.Unmarshal(document, &full.content); err != nil {
		return nil, fmt.Errorf("not a route: %w", err)
	}
	if metadata, ok := full.content["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
	}
	full.matched = new(sync.Map)
	return &full, nil
}

// parseList parses a list of routes in JSON, without their content.
func parseList(document []byte) ([]*object, error) {
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(document, &list); err != nil {
		return nil, fmt.Errorf("not a list of routes: %w", err)
	}
	objects := make([]*object, 0, len(list.Items))
	for _, item := range list.Items {
		head, err := parseHead(item)
		if err != nil {
			return nil, err
		}
		objects = append(objects, head)
	}
	return objects, nil
}
