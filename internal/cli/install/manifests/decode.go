package manifests

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// Decode decodes the YAML documents of a manifest. If namespace is not empty, the objects get it. The file is named in
// errors.
func Decode(file string, manifest []byte, namespace string) ([]Object, error) {
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), len(manifest))
	var all []Object
	for {
		var content map[string]any
		err := decoder.Decode(&content)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("manifest %s: %w", file, err)
		}
		if len(content) > 0 {
			all = append(all, newObject(content, namespace))
		}
	}
}

// newObject returns the object with the content. If namespace is not empty, the object gets it.
func newObject(content map[string]any, namespace string) Object {
	object := Object{Content: content}
	metadata := object.metadata()
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	object.APIVersion, _ = content["apiVersion"].(string)
	object.Kind, _ = content["kind"].(string)
	object.Namespace, _ = metadata["namespace"].(string)
	object.Name, _ = metadata["name"].(string)
	return object
}
