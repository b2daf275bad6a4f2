package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// Manifest is the identity of an object in a manifest.
type Manifest struct {
	// APIVersion and Kind are the type, such as rbac.authorization.k8s.io/v1 and ClusterRole.
	APIVersion, Kind string
	// Metadata names the object.
	Metadata struct {
		// Name is the object's name.
		Name string
		// Namespace is its namespace. It is empty for cluster-scoped objects, and in manifests that leave the namespace
		// to kubectl.
		Namespace string
	}
}

// Path returns the REST path of the object. namespace is the default namespace. The supported plurals end with s, es or
// ies, or are Endpoints.
func (m Manifest) Path(namespace string) string {
	path := "/apis/" + m.APIVersion
	if !strings.Contains(m.APIVersion, "/") {
		path = "/api/" + m.APIVersion
	}
	switch m.Kind {
	case "Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "MutatingWebhookConfiguration",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
	default:
		if m.Metadata.Namespace != "" {
			namespace = m.Metadata.Namespace
		}
		path += "/namespaces/" + namespace
	}
	plural := strings.TrimSuffix(strings.ToLower(m.Kind), "s") + "s"
	if strings.HasSuffix(m.Kind, "ss") {
		plural += "es"
	}
	if strings.HasSuffix(m.Kind, "Policy") {
		plural = strings.TrimSuffix(plural, "ys") + "ies"
	}
	return path + "/" + plural + "/" + m.Metadata.Name
}

// Apply applies the objects of manifests, which are YAML documents, as kubectl apply --server-side --force-conflicts
// does, with the field manager test. namespace is the default namespace. When Apply returns, the API server serves the
// resources of applied CRDs.
func Apply(ctx context.Context, client rest.Interface, namespace string, manifests ...string) error {
	for _, manifest := range manifests {
		decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), len(manifest))
		for {
			var document json.RawMessage
			err := decoder.Decode(&document)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return fmt.Errorf("manifest: %w", err)
			}
			if bytes.Equal(document, []byte("null")) || len(document) == 0 {
				continue // a document of comments only
			}
			if err := applyOne(ctx, client, namespace, document); err != nil {
				return err
			}
		}
	}
	return nil
}

// ApplyFiles is Apply for manifests in files.
func ApplyFiles(ctx context.Context, client rest.Interface, namespace string, files ...string) error {
	for _, file := range files {
		manifest, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			return err
		}
		if err := Apply(ctx, client, namespace, string(manifest)); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// applyOne applies one document. It retries while a required resource or permission does not exist yet.
func applyOne(ctx context.Context, client rest.Interface, namespace string, document json.RawMessage) error {
	var object Manifest
	if err := json.Unmarshal(document, &object); err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	err := retryMissing(ctx, func(ctx context.Context) error {
		return client.Patch(types.ApplyPatchType).AbsPath(object.Path(namespace)).
			Param("fieldManager", "test").Param("force", "true").
			Param("fieldValidation", "Strict").Body([]byte(document)).Do(ctx).Error()
	})
	if err == nil && object.Kind == "CustomResourceDefinition" {
		err = awaitServed(ctx, client, document)
	}
	if err != nil {
		return fmt.Errorf("apply %s %s: %w", object.Kind, object.Metadata.Name, err)
	}
	return nil
}

// awaitServed waits until the API server serves every served version of a CRD, which happens some time after the CRD is
// created.
func awaitServed(ctx context.Context, client rest.Interface, document json.RawMessage) error {
	var crd struct {
		Spec struct {
			Group    string
			Names    struct{ Plural string }
			Versions []struct {
				Name   string
				Served bool
			}
		}
	}
	if err := json.Unmarshal(document, &crd); err != nil {
		return err
	}
	for _, version := range crd.Spec.Versions {
		if !version.Served {
			continue
		}
		err := retryMissing(ctx, func(ctx context.Context) error {
			return client.Get().AbsPath("/apis", crd.Spec.Group, version.Name,
				crd.Spec.Names.Plural).Param("limit", "1").Do(ctx).Error()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// retryMissing repeats a call, for at most await.Patience, while the response is Not Found or Forbidden: the resource
// of a CRD and the permissions of a role exist some time after they were created.
func retryMissing(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, await.Patience())
	defer cancel()
	var err error
	timeoutErr := await.Until(ctx, "a resource or a permission", func() bool {
		err = call(ctx)
		return !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err)
	}, func() string { return err.Error() })
	return errors.Join(timeoutErr, err)
}
