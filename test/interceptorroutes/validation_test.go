package interceptorroutes

import (
	"encoding/json"
	"path"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
)

// TestValidation: the API server rejects invalid InterceptorRoutes, with the messages of the schema.
func TestValidation(t *testing.T) {
	const onePort = "set exactly one of 'port' and 'portName'"
	for name, c := range map[string]struct{ fields, message string }{
		"no metric":                   {"scalingMetric: {}", "set 'concurrency', 'requestRate' or both"},
		"a port and its name":         {"target: {service: a, port: 80, portName: web}", onePort},
		"no port":                     {"target: {service: a}", onePort},
		"no Service":                  {"target: {service: '', port: 80}", "spec.target.service"},
		"a port out of range":         {"target: {service: a, port: 65536}", "spec.target.port"},
		"an empty path":               {"rules: [{paths: [{value: ''}]}]", "spec.rules[0].paths[0].value"},
		"an empty header":             {"rules: [{headers: [{name: ''}]}]", "spec.rules[0].headers[0].name"},
		"a header twice":              {"rules: [{headers: [{name: A}, {name: A}]}]", "spec.rules[0].headers[1]"},
		"a host twice":                {"rules: [{hosts: [a.test, a.test]}]", "spec.rules[0].hosts[1]"},
		"an empty cold start":         {"coldStart: {}", "set 'fallback' or 'placeholder'"},
		"a fallback without a port":   {"coldStart: {fallback: {service: {name: a}}}", onePort},
		"two bodies":                  {"staticRoutes: [{rules: [{}], response: {body: a, bodyFromConfigMap: {name: a}}}]", "at most one of 'body'"},
		"a status above 599":          {"coldStart: {placeholder: {response: {statusCode: 600}}}", "statusCode"},
		"a static route without rule": {"staticRoutes: [{rules: [], response: {}}]", "spec.staticRoutes[0].rules"},
		"an unknown mode":             {"staticRoutes: [{rules: [{}], response: {}, responseMode: Never}]", "responseMode"},
		"a target of 0":               {"scalingMetric: {concurrency: {targetValue: 0}}", "spec.scalingMetric.concurrency.targetValue"},
	} {
		t.Run(name, func(t *testing.T) {
			err := create(t, c.fields)
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.message) {
				t.Errorf("the API server answers %v, want an invalid object and %q", err, c.message)
			}
		})
	}
	if err := create(t, ""); err != nil {
		t.Errorf("a valid object: %v", err)
	}
	shared.remove(t, "invalid")
}

// create creates the InterceptorRoute invalid.
func create(t *testing.T, fields string) error {
	t.Helper()
	document, err := yaml.YAMLToJSON([]byte(manifest("invalid", fields)))
	if err != nil {
		t.Fatal(err)
	}
	return apiserver.Create(t.Context(), shared.Admin, path.Dir(routePath("invalid")), json.RawMessage(document))
}
