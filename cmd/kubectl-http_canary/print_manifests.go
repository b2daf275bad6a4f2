package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/install/manifests"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/install/registration"
)

const (
	// downloadTimeout bounds the download of checksums, and maxChecksums is the maximum size in bytes.
	downloadTimeout = 30 * time.Second
	maxChecksums    = 1 << 20
)

// printManifests prints the objects and the controller's ConfigMap as YAML documents.
func printManifests(out io.Writer, cluster *facts.Facts, objects []manifests.Object,
	entries []registration.Entry,
) error {
	configMap, err := configMapWith(cluster, entries)
	if err != nil {
		return err
	}
	documents := []map[string]any{}
	for _, object := range objects {
		documents = append(documents, object.Content)
	}
	for i, document := range append(documents, configMap) {
		text, err := yaml.Marshal(document)
		if err != nil {
			return err
		}
		if i > 0 {
			text = append([]byte("---\n"), text...)
		}
		if _, err := out.Write(text); err != nil {
			return err
		}
	}
	return nil
}

// configMapWith returns the controller's ConfigMap with the entries added. It contains all fields of the live
// ConfigMap: otherwise server-side apply would remove the missing ones.
func configMapWith(cluster *facts.Facts, entries []registration.Entry) (map[string]any, error) {
	merged, err := registration.Merge(registration.StateOf(cluster.Plugins).Text, entries)
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s/%s: data.%s: %w", cluster.Controller.Namespace, facts.ConfigMapName,
			facts.PluginsKey, err)
	}
	metadata := map[string]any{"name": facts.ConfigMapName, "namespace": cluster.Controller.Namespace}
	data := map[string]string{}
	if live := cluster.Plugins; live != nil {
		maps.Copy(data, live.Data)
		annotations := maps.Clone(live.Annotations)
		delete(annotations, corev1.LastAppliedConfigAnnotation)
		for field, values := range map[string]map[string]string{"labels": live.Labels, "annotations": annotations} {
			if len(values) > 0 {
				metadata[field] = values
			}
		}
	}
	data[facts.PluginsKey] = merged
	return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}, nil
}

// download returns the text at a URL.
func download(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := new(http.Client).Do(request)
	if err != nil {
		return "", fmt.Errorf("%w: download it on another machine and pass it with --checksums", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s: specify the URL of a release with --from, or a local file with --checksums", url,
			response.Status)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxChecksums))
	return string(text), err
}
