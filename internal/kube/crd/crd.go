// Package crd detects which fields an installed CustomResourceDefinition declares. Another project's CRD of the same
// name may be older or leaner than ours.
package crd

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Schema is the part of an OpenAPI 3.0 schema that declares fields and their values.
type Schema struct {
	Properties      map[string]Schema `json:"properties"`
	Items           *Schema           `json:"items"`
	PreserveUnknown bool              `json:"x-kubernetes-preserve-unknown-fields"`
	// Enum are the allowed values. It is empty if the schema does not list them.
	Enum []any `json:"enum"`
	// Kinds are the kinds that the schema describes. It is empty for a schema inside another one.
	Kinds []schema.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
}

// Declares reports whether the schema declares every field of value, which was decoded from JSON, and allows its values
// where it lists the allowed ones.
func (s Schema) Declares(value any) bool {
	switch value := value.(type) {
	case string:
		return len(s.Enum) == 0 || slices.Contains(s.Enum, any(value))
	case map[string]any:
		for name, field := range value {
			if property, ok := s.Properties[name]; !s.PreserveUnknown && (!ok || !property.Declares(field)) {
				return false
			}
		}
	case []any:
		for _, element := range value {
			if !s.PreserveUnknown && (s.Items == nil || !s.Items.Declares(element)) {
				return false
			}
		}
	}
	return true
}

// FieldSchema returns the schema of a top-level field of a kind, such as status, as the API server publishes it, and
// nil if it publishes none. Every authenticated user has the permission to read it (ClusterRole system:discovery).
func FieldSchema(
	ctx context.Context, client rest.Interface, kind schema.GroupVersionKind, field string,
) (*Schema, error) {
	path := []string{"/openapi/v3/apis", kind.Group, kind.Version}
	text, err := client.Get().AbsPath(path...).DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	var document struct {
		Components struct {
			Schemas map[string]Schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("decode the schema: %w", err)
	}
	for _, published := range document.Components.Schemas {
		if declared, ok := published.Properties[field]; ok && slices.Contains(published.Kinds, kind) {
			return &declared, nil
		}
	}
	return nil, nil //nolint:nilnil // no published schema is no failure
}

// MayBeUndeclared reports whether the API server may have rejected a write because the schema lacks a field or a value
// in it. Server-side apply answers an undeclared field with an internal error (Kubernetes 1.34), and so does an API
// server without its storage. So this is necessary and not sufficient: the schema decides, see Published.
func MayBeUndeclared(err error) bool {
	return apierrors.IsInternalError(err) || apierrors.IsBadRequest(err) || apierrors.IsInvalid(err)
}
