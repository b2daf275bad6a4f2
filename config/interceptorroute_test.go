package config_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/config"
)

// upstreamDigest is the digest of the spec of InterceptorRoute's CustomResourceDefinition in version 0.14 of the KEDA
// HTTP add-on: the SHA-256 of its JSON, without descriptions and messages, with sorted keys and without white space.
const upstreamDigest = "2641b413b1bd3605a9fb3e329f9a7fbdcf1b308acc9051e710ee07af3385df1d"

// TestInterceptorRouteSchema requires the schema of the KEDA HTTP add-on: the CustomResourceDefinitions of both can
// replace each other. Descriptions and the messages of rules may differ.
func TestInterceptorRouteSchema(t *testing.T) {
	t.Parallel()
	text, err := config.Files.ReadFile("crd/http.keda.sh_interceptorroutes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var definition struct {
		Spec any `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &definition); err != nil {
		t.Fatal(err)
	}
	var canonical bytes.Buffer
	encoder := json.NewEncoder(&canonical)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(withoutTexts(definition.Spec)); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(bytes.TrimSpace(canonical.Bytes()))
	if got := hex.EncodeToString(sum[:]); got != upstreamDigest {
		t.Errorf("the digest of the schema is %s, want %s", got, upstreamDigest)
	}
}

// withoutTexts returns a schema without descriptions and messages.
func withoutTexts(value any) any {
	switch value := value.(type) {
	case map[string]any:
		kept := map[string]any{}
		_, isRule := value["rule"]
		for name, field := range value {
			_, isText := field.(string)
			if isText && (name == "description" || isRule && name == "message") {
				continue
			}
			kept[name] = withoutTexts(field)
		}
		return kept
	case []any:
		kept := make([]any, 0, len(value))
		for _, element := range value {
			kept = append(kept, withoutTexts(element))
		}
		return kept
	}
	return value
}
