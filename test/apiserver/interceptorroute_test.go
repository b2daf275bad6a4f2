package apiserver_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
)

// routePath returns the path of an InterceptorRoute, or of all in a namespace if name is empty.
func routePath(namespace, name string) string {
	return strings.TrimSuffix("/apis/"+httpv1beta1.SchemeGroupVersion.String()+"/namespaces/"+namespace+"/"+
		httpv1beta1.Resource+"/"+name, "/")
}

// createRoute creates an InterceptorRoute as kubectl does, and returns the rejection.
func (c *cluster) createRoute(t *testing.T, namespace, name, spec string) string {
	t.Helper()
	body, err := yaml.YAMLToJSON(fmt.Appendf(nil,
		"{apiVersion: http.keda.sh/v1beta1, kind: InterceptorRoute, metadata: {name: %s}, spec: %s}", name, spec))
	if err != nil {
		t.Fatal(err)
	}
	return rejection(t, c.admin.Post().AbsPath(routePath(namespace, "")).SetHeader("Content-Type", "application/json").
		Param("fieldValidation", "Strict").Body(body).Do(t.Context()).Error())
}

// TestInterceptorRouteCRDAccepts creates objects with specs of users of the KEDA HTTP add-on. They are stored with all
// fields, and decoding and encoding them with our types loses none.
func TestInterceptorRouteCRDAccepts(t *testing.T) {
	t.Parallel()
	const namespace = "route-takes"
	shared.newNamespace(t, namespace)
	for name, test := range map[string]struct{ spec, defaults string }{
		"bare": {`{target: {service: shop, port: 80}, scalingMetric: {concurrency: {targetValue: 1}}}`, ""},
		"rate": {
			`{target: {service: shop, portName: http}, scalingMetric: {requestRate: {targetValue: 1}}}`,
			`{scalingMetric: {requestRate: {window: 1m, granularity: 1s}}}`,
		},
		"everything": {`{
			target: {service: shop-stable, port: 80},
			rules: [
			  {hosts: [a.test, "*.b.test", "*"], paths: [{value: /}, {value: app}], headers: [{name: X-Tenant, value: a}, {name: X-Any}]},
			  {hosts: [c.test]}, {paths: [{value: /all}]}, {}],
			coldStart: {
			  fallback: {service: {name: late, portName: http}},
			  placeholder: {response: {statusCode: 202, body: starting, headers: {Retry-After: "5"}}}},
			timeouts: {readiness: 0s, request: 1m30s, responseHeader: 500ms},
			scalingMetric: {concurrency: {targetValue: 10}, requestRate: {targetValue: 5, window: 2m, granularity: 500ms}},
			staticRoutes: [
			  {rules: [{paths: [{value: /ping}]}], response: {body: pong}, responseMode: Always},
			  {rules: [{hosts: [a.test]}], response: {statusCode: 503, bodyFromConfigMap: {name: pages, key: down.html}}, responseMode: WhenUnavailable}]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if rejected := shared.createRoute(t, namespace, name, test.spec); rejected != "" {
				t.Fatal(rejected)
			}
			body, err := shared.admin.Get().AbsPath(routePath(namespace, name)).DoRaw(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := decodeYAML(t, test.spec)
			mergeInto(want, decodeYAML(t, test.defaults))
			var stored struct{ Spec map[string]any }
			var typed httpv1beta1.InterceptorRoute
			if err := json.Unmarshal(body, &stored); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, stored.Spec); diff != "" {
				t.Errorf("the stored object (-want +got):\n%s", diff)
			}
			if err := json.Unmarshal(body, &typed); err != nil {
				t.Fatal(err)
			}
			again, err := json.Marshal(typed.Spec)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(canonical(stored.Spec), canonical(decodeYAML(t, string(again)))); diff != "" ||
				typed.Spec.Unreadable != "" {
				t.Errorf("encoded again (-stored +got), unreadable %q:\n%s", typed.Spec.Unreadable, diff)
			}
		})
	}
}

// TestInterceptorRouteCRDRejects: the rules of the schema are those of the KEDA HTTP add-on.
func TestInterceptorRouteCRDRejects(t *testing.T) {
	t.Parallel()
	const namespace = "route-rejects"
	shared.newNamespace(t, namespace)
	const metric, target = `scalingMetric: {concurrency: {targetValue: 1}}`, `target: {service: shop, port: 80}`
	for name, test := range map[string]struct{ spec, says string }{
		"no-target":    {`{` + metric + `}`, "spec.target"},
		"no-metric":    {`{` + target + `, scalingMetric: {}}`, "concurrency"},
		"two-ports":    {`{target: {service: shop, port: 80, portName: http}, ` + metric + `}`, "exactly one of"},
		"no-cold":      {`{` + target + `, coldStart: {}, ` + metric + `}`, "fallback"},
		"no-header":    {`{` + target + `, rules: [{headers: [{name: ""}]}], ` + metric + `}`, "spec.rules[0].headers[0].name"},
		"two-bodies":   {`{` + target + `, coldStart: {placeholder: {response: {body: a, bodyFromConfigMap: {name: b}}}}, ` + metric + `}`, "at most one of"},
		"static-mode":  {`{` + target + `, staticRoutes: [{rules: [{}], response: {}, responseMode: Never}], ` + metric + `}`, "responseMode"},
		"two-headers":  {`{` + target + `, rules: [{headers: [{name: a}, {name: a}]}], ` + metric + `}`, "Duplicate"},
		"other-fields": {`{` + target + `, ` + metric + `, hosts: [a.test]}`, "hosts"},
	} {
		if got := shared.createRoute(t, namespace, name, test.spec); !strings.Contains(got, test.says) {
			t.Errorf("%s: rejected with %q, want a text with %q", name, got, test.says)
		}
	}
}

// decodeYAML decodes a YAML mapping.
func decodeYAML(t *testing.T, text string) map[string]any {
	t.Helper()
	decoded := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &decoded); err != nil {
		t.Fatal(err)
	}
	return decoded
}

// canonical returns a value with durations in Go's notation, such as 1m0s for 1m.
func canonical(value any) any {
	switch value := value.(type) {
	case string:
		if duration, err := time.ParseDuration(value); err == nil {
			return duration.String()
		}
	case map[string]any:
		for name, field := range value {
			value[name] = canonical(field)
		}
	case []any:
		for i, element := range value {
			value[i] = canonical(element)
		}
	}
	return value
}

// mergeInto adds the fields of a mapping to another one.
func mergeInto(target, more map[string]any) {
	for name, value := range more {
		fields, isMapping := value.(map[string]any)
		if nested, isNested := target[name].(map[string]any); isMapping && isNested {
			mergeInto(nested, fields)
			continue
		}
		target[name] = value
	}
}
