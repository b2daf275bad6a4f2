package apiserver

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// CreateNamespace creates a namespace.
func CreateNamespace(ctx context.Context, client rest.Interface, name string) error {
	document := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}
	return Create(ctx, client, "/api/v1/namespaces", document)
}

// Create creates an object at the REST path of its collection. It retries while a required resource or permission does
// not exist yet.
func Create(ctx context.Context, client rest.Interface, path string, document any) error {
	body, err := json.Marshal(document)
	if err != nil {
		return err
	}
	return retryMissing(ctx, func(ctx context.Context) error {
		return client.Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
	})
}

// Patch sends a merge patch (RFC 7386) to the REST path of an object.
func Patch(ctx context.Context, client rest.Interface, path, fieldManager string, patch any) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	return client.Patch(types.MergePatchType).AbsPath(path).Param("fieldManager", fieldManager).Body(body).Do(ctx).Error()
}

// Get reads an object at its REST path into a value.
func Get(ctx context.Context, client rest.Interface, path string, into any) error {
	body, err := client.Get().AbsPath(path).DoRaw(ctx)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

// Delete deletes an object at its REST path.
func Delete(ctx context.Context, client rest.Interface, path string) error {
	return client.Delete().AbsPath(path).Do(ctx).Error()
}
