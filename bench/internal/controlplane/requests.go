package controlplane

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// collection is the REST path of the kinds in manifests that Apply takes.
func collection(kind string) string {
	switch kind {
	case "CustomResourceDefinition":
		return "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	case "ClusterRole":
		return "/apis/rbac.authorization.k8s.io/v1/clusterroles"
	case "ClusterRoleBinding":
		return "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
	default:
		return ""
	}
}

// Apply creates every document of the manifests, which are CustomResourceDefinitions, ClusterRoles and ClusterRoleBindings.
func Apply(ctx context.Context, client rest.Interface, manifests ...string) error {
	for _, manifest := range manifests {
		for text := range strings.SplitSeq(manifest, "\n---") {
			document := map[string]any{}
			if err := yaml.Unmarshal([]byte(strings.TrimPrefix(text, "---")), &document); err != nil {
				return err
			}
			kind, _ := document["kind"].(string)
			if kind == "" {
				continue
			}
			if err := Create(ctx, client, collection(kind), document); err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
		}
	}
	return nil
}

// CreateNamespace creates a namespace.
func CreateNamespace(ctx context.Context, client rest.Interface, name string) error {
	document := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}
	return Create(ctx, client, "/api/v1/namespaces", document)
}

// Create creates an object at the REST path of its collection, patiently: what it needs may have been created a moment ago.
func Create(ctx context.Context, client rest.Interface, path string, document any) error {
	body, err := json.Marshal(document)
	if err != nil {
		return err
	}
	for range 100 {
		err = client.Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
		if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return err
}

// Patch sends a merge patch (RFC 7386) to the REST path of an object.
func Patch(ctx context.Context, client rest.Interface, path, fieldManager string, patch any) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	return client.Patch(types.MergePatchType).AbsPath(path).Param("fieldManager", fieldManager).Body(body).Do(ctx).Error()
}
