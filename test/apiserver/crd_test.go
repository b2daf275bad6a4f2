package apiserver_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// bare is the smallest useful spec.
const bare = `{hosts: [shop.test], scaleTargetRef: {service: shop-stable, port: 80}}`

// create creates an HTTPScaledObject as kubectl does: the API server rejects unknown and repeated fields. It returns
// the rejection.
func (c *cluster) create(t *testing.T, namespace, name, spec string) string {
	t.Helper()
	body, err := yaml.YAMLToJSON(fmt.Appendf(nil,
		"{apiVersion: http.keda.sh/v1alpha1, kind: HTTPScaledObject, metadata: {name: %s}, spec: %s}", name, spec))
	if err != nil {
		t.Fatal(err)
	}
	return rejection(t, c.admin.Post().AbsPath(pathOf(namespace, "")).SetHeader("Content-Type", "application/json").
		Param("fieldValidation", "Strict").Body(body).Do(t.Context()).Error())
}

// TestCRDAccepts creates objects with specs of users of the HTTP add-on, and compares the stored ones.
func TestCRDAccepts(t *testing.T) {
	t.Parallel()
	const namespace = "takes"
	shared.newNamespace(t, namespace)
	for name, test := range map[string]struct{ spec, want string }{
		"bare": {bare, bare},
		"port-name": {
			`{scaleTargetRef: {service: shop, portName: http}}`,
			`{scaleTargetRef: {service: shop, portName: http}}`,
		},
		"everything": {
			`{hosts: [a.test, "*.b.test", "*"], pathPrefixes: [/, /app], headers: [{name: X-Tenant, value: a}, {name: X-Any}, {name: X-W, valueWildcard: "a*"}, {name: X-R, valueRegex: a+}],
			  scaleTargetRef: {name: shop, apiVersion: argoproj.io/v1alpha1, kind: Rollout, service: shop-stable, port: 80}, replicas: {min: 2, max: 10},
			  targetPendingRequests: 1, scaledownPeriod: 60, initialCooldownPeriod: 5, timeouts: {conditionWait: 20m, responseHeader: 1m30s},
			  scalingMetric: {requestRate: {targetValue: 5, window: 2m, granularity: 500ms}}}`,
			`{hosts: [a.test, "*.b.test", "*"], pathPrefixes: [/, /app], headers: [{name: X-Tenant, value: a}, {name: X-Any}, {name: X-W, valueWildcard: "a*"}, {name: X-R, valueRegex: a+}],
			  scaleTargetRef: {name: shop, apiVersion: argoproj.io/v1alpha1, kind: Rollout, service: shop-stable, port: 80}, replicas: {min: 2, max: 10},
			  targetPendingRequests: 1, scaledownPeriod: 60, initialCooldownPeriod: 5, timeouts: {conditionWait: 20m, responseHeader: 1m30s},
			  scalingMetric: {requestRate: {targetValue: 5, window: 2m, granularity: 500ms}}}`,
		},
		"defaults": {
			`{scaleTargetRef: {service: shop, port: 80}, scalingMetric: {requestRate: {}}, coldStartTimeoutFailoverRef: {service: late, port: 81}}`,
			`{scaleTargetRef: {service: shop, port: 80}, scalingMetric: {requestRate: {targetValue: 100, window: 1m, granularity: 1s}},
			  coldStartTimeoutFailoverRef: {service: late, port: 81, timeoutSeconds: 30}}`,
		},
		"concurrency-default": {
			`{scaleTargetRef: {service: shop, port: 80}, scalingMetric: {concurrency: {}}}`,
			`{scaleTargetRef: {service: shop, port: 80}, scalingMetric: {concurrency: {targetValue: 100}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if refused := shared.create(t, namespace, name, test.spec); refused != "" {
				t.Fatal(refused)
			}
			body, err := shared.admin.Get().AbsPath(pathOf(namespace, name)).DoRaw(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var got struct{ Spec any }
			var want any
			if err := json.Unmarshal(body, &got); err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal([]byte(test.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got.Spec); diff != "" {
				t.Errorf("the stored object (-want +got):\n%s", diff)
			}
		})
	}
}

// manyHeaders returns conditions on headers with different names and the same value.
func manyHeaders(count int, value string) string {
	var list []string
	for i := range count {
		list = append(list, fmt.Sprintf("{name: x-%d, value: %q}", i, value))
	}
	return strings.Join(list, ", ")
}

// TestCRDAcceptsTheLimits creates objects at the limits of package resolve.
func TestCRDAcceptsTheLimits(t *testing.T) {
	t.Parallel()
	const namespace = "limits"
	shared.newNamespace(t, namespace)
	label := strings.Repeat("a", 63) + "."
	host := strings.Repeat(label, 3) + strings.Repeat("a", 61) + ".:65535" // 253 characters, a dot and a port
	if _, err := model.ParseHost(host); err != nil {
		t.Fatal(err)
	}
	prefix := "/" + strings.Repeat("a", 1023) + "/"
	if _, err := model.ParsePathPrefix(prefix); err != nil {
		t.Fatal(err)
	}
	value := strings.Repeat("v", 4096)
	if _, err := model.ParseHeader(strings.Repeat("n", 256), &value); err != nil {
		t.Fatal(err)
	}
	for name, spec := range map[string]string{
		"hosts":   `{hosts: [` + strings.Repeat(host+", ", resolve.MaxHosts) + `], scaleTargetRef: {service: shop, port: 80}}`,
		"paths":   `{pathPrefixes: [` + strings.Repeat(prefix+", ", resolve.MaxPathPrefixes) + `], scaleTargetRef: {service: shop, port: 80}}`,
		"headers": `{headers: [` + manyHeaders(resolve.MaxHeaders, value) + `], scaleTargetRef: {service: shop, port: 80}}`,
		"name":    `{headers: [{name: ` + strings.Repeat("n", 256) + `}], scaleTargetRef: {service: shop, port: 80}}`,
		"patterns": `{headers: [{name: a, valueWildcard: ` + strings.Repeat("n", 1024) + `}, {name: b, valueRegex: ` +
			strings.Repeat("n", 1024) + `}], scaleTargetRef: {service: shop, port: 80}}`,
	} {
		if rejected := shared.create(t, namespace, name, spec); rejected != "" {
			t.Errorf("%s: %s", name, rejected)
		}
	}
}

// TestCRDRejects creates objects with invalid specs, and compares the errors that users see.
func TestCRDRejects(t *testing.T) {
	t.Parallel()
	const namespace = "refuses"
	// The API server adds this if an error prevents further validation.
	const unchecked = `, <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; ` +
		`correct the existing errors to complete validation]`
	shared.newNamespace(t, namespace)
	for name, test := range map[string]struct{ spec, want string }{
		"no-target": {
			`{hosts: [a.test]}`,
			`[spec.scaleTargetRef: Required value` + unchecked,
		},
		"no-service": {
			`{scaleTargetRef: {port: 80}}`,
			`[spec.scaleTargetRef.service: Required value` + unchecked,
		},
		"no-port": {
			`{scaleTargetRef: {service: shop}}`,
			`spec.scaleTargetRef: Invalid value: "object": set exactly one of 'port' and 'portName'`,
		},
		"two-ports": {
			`{scaleTargetRef: {service: shop, port: 80, portName: http}}`,
			`spec.scaleTargetRef: Invalid value: "object": set exactly one of 'port' and 'portName'`,
		},
		"two-conditions": {
			`{scaleTargetRef: {service: shop, port: 80}, headers: [{name: a, value: b, valueRegex: c}]}`,
			`spec.headers[0]: Invalid value: "object": set at most one of 'value', 'valueWildcard' and 'valueRegex'`,
		},
		"two-failover-ports": {
			`{scaleTargetRef: {service: shop, port: 80}, coldStartTimeoutFailoverRef: {service: late, port: 80, portName: http}}`,
			`spec.coldStartTimeoutFailoverRef: Invalid value: "object": set exactly one of 'port' and 'portName'`,
		},
		"port-as-text": {
			`{scaleTargetRef: {service: shop, port: "80"}}`,
			`[spec.scaleTargetRef.port: Invalid value: "string": spec.scaleTargetRef.port in body must be of type integer: "string"` + unchecked,
		},
		"hosts-as-text": {
			`{hosts: a.test, scaleTargetRef: {service: shop, port: 80}}`,
			`[spec.hosts: Invalid value: "string": spec.hosts in body must be of type array: "string"` + unchecked,
		},
		"unknown-field": {
			`{host: [a.test], scaleTargetRef: {service: shop, port: 80}}`,
			`HTTPScaledObject in version "v1alpha1" cannot be handled as a HTTPScaledObject: strict decoding error: unknown field "spec.host"`,
		},
		"nameless-header": {
			`{headers: [{value: a}], scaleTargetRef: {service: shop, port: 80}}`,
			`[spec.headers[0].name: Required value` + unchecked,
		},
		"empty-header-name": {
			`{headers: [{name: ""}], scaleTargetRef: {service: shop, port: 80}}`,
			`spec.headers[0].name: Invalid value: "": spec.headers[0].name in body should be at least 1 chars long`,
		},
		"repeated-header": {
			`{headers: [{name: a, value: b}, {name: a, value: c}], scaleTargetRef: {service: shop, port: 80}}`,
			`spec.headers[1]: Duplicate value: {"name":"a"}`,
		},
		"too-many-hosts": {
			`{hosts: [` + strings.Repeat("a.test, ", 257) + `], scaleTargetRef: {service: shop, port: 80}}`,
			`[spec.hosts: Too many: 257: must have at most 256 items` + unchecked,
		},
		"long-host": {
			`{hosts: [` + strings.Repeat("a", 261) + `], scaleTargetRef: {service: shop, port: 80}}`,
			`[spec.hosts[0]: Too long: may not be more than 260 bytes` + unchecked,
		},
		"too-many-paths": {
			`{pathPrefixes: [` + strings.Repeat("/a, ", 257) + `], scaleTargetRef: {service: shop, port: 80}}`,
			`[spec.pathPrefixes: Too many: 257: must have at most 256 items` + unchecked,
		},
		"long-path": {
			`{pathPrefixes: [/` + strings.Repeat("a", 1025) + `], scaleTargetRef: {service: shop, port: 80}}`,
			`[spec.pathPrefixes[0]: Too long: may not be more than 1025 bytes` + unchecked,
		},
		"too-many-headers": {
			`{headers: [` + manyHeaders(17, "") + `], scaleTargetRef: {service: shop, port: 80}}`,
			`[spec.headers: Too many: 17: must have at most 16 items` + unchecked,
		},
		"long-header": {
			`{headers: [{name: ` + strings.Repeat("a", 257) + `}], scaleTargetRef: {service: shop, port: 80}}`,
			`[spec.headers[0].name: Too long: may not be more than 256 bytes` + unchecked,
		},
		"long-header-value": {
			`{headers: [{name: a, value: ` + strings.Repeat("a", 4097) + `}], scaleTargetRef: {service: shop, port: 80}}`,
			`[spec.headers[0].value: Too long: may not be more than 4096 bytes` + unchecked,
		},
		"target-as-text": {
			`{scaleTargetRef: shop}`,
			`[spec.scaleTargetRef: Invalid value: "string": spec.scaleTargetRef in body must be of type object: "string"` +
				unchecked,
		},
		"timeout-as-a-number": {
			`{scaleTargetRef: {service: shop, port: 80}, timeouts: {responseHeader: 30}}`,
			`[spec.timeouts.responseHeader: Invalid value: "integer": spec.timeouts.responseHeader in body must be of type string: "integer"` + unchecked,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := strings.TrimPrefix(shared.create(t, namespace, name, test.spec),
				`HTTPScaledObject.http.keda.sh "`+name+`" is invalid: `)
			if got != test.want {
				t.Errorf("the API server returns\n%s, want\n%s", got, test.want)
			}
		})
	}
}

// TestPrinterColumns is not parallel: the interceptor of a parallel test serves all namespaces and would write this
// status.
func TestPrinterColumns(t *testing.T) {
	const namespace = "columns"
	shared.newNamespace(t, namespace)
	if refused := shared.create(t, namespace, "shop",
		`{hosts: [shop.test], scaleTargetRef: {service: shop-stable, port: 80}, replicas: {min: 2, max: 10}}`); refused != "" {
		t.Fatal(refused)
	}
	const status = `{"status": {"targetWorkload": "argoproj.io/v1alpha1/Rollout/shop", "targetService": "shop-stable:80", "canary": "20%",
		"dataPlane": {"annotationHash": "", "effective": false, "proxies": {"ready": 3, "acked": 2}}, "conditions": [
		{"type": "Ready", "status": "True", "reason": "Serving", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
		{"type": "Programmed", "status": "False", "reason": "NotAcknowledged", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}`
	if err := patch(t.Context(), shared.admin, pathOf(namespace, "shop")+"/status", status); err != nil {
		t.Fatal(err)
	}
	table := shared.table(t, namespace)
	var names []string
	for _, column := range table.ColumnDefinitions {
		names = append(names, column.Name)
	}
	if diff := cmp.Diff([]string{
		"Name", "TargetWorkload", "TargetService", "MinReplicas", "MaxReplicas", "Age",
		"Active", "Canary", "Proxies", "Hosts", "Acked", "Programmed",
	}, names); diff != "" {
		t.Fatalf("columns (-want +got):\n%s", diff)
	}
	cells := table.Rows[0].Cells
	if age := cells[5]; age == "" || age == "<unknown>" {
		t.Errorf("the age is %v", age)
	}
	cells[5] = "some"
	if diff := cmp.Diff([]any{
		"shop", "argoproj.io/v1alpha1/Rollout/shop", "shop-stable:80", float64(2), float64(10),
		"some", "True", "20%", float64(3), `["shop.test"]`, float64(2), "False",
	}, cells); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
}

// TestNamesOfResources: `kubectl get httpso`, `kubectl get keda` and `kubectl get http-canary` include HTTPScaledObjects.
// The CRD of InterceptorRoutes is that of the KEDA HTTP add-on, which has neither.
func TestNamesOfResources(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]map[string]string{
		httpv1alpha1.SchemeGroupVersion.String(): {
			"httpscaledobjects": "httpso; keda, http-canary", "httpscaledobjects/status": "; ",
		},
		httpv1beta1.SchemeGroupVersion.String(): {"interceptorroutes": "; ", "interceptorroutes/status": "; "},
	} {
		body, err := shared.admin.Get().AbsPath("/apis/" + version).DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var list metav1.APIResourceList
		if err := json.Unmarshal(body, &list); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, resource := range list.APIResources {
			got[resource.Name] = strings.Join(resource.ShortNames, ", ") + "; " + strings.Join(resource.Categories, ", ")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: short names and categories (-want +got):\n%s", version, diff)
		}
	}
}

// TestStatusIsASubresource: a write of the spec doesn't change the status and vice versa, and only a write of the spec
// is a new generation. The test is not parallel for the reason of TestPrinterColumns.
func TestStatusIsASubresource(t *testing.T) {
	const namespace = "subresource"
	shared.newNamespace(t, namespace)
	if refused := shared.create(t, namespace, "shop", bare); refused != "" {
		t.Fatal(refused)
	}
	main, status := pathOf(namespace, "shop"), pathOf(namespace, "shop")+"/status"
	for _, step := range []struct {
		name, path, body        string
		generation              int64
		service, host, refusals string
	}{
		{"a status", status, `{"status": {"targetService": "shop-stable:80"}}`, 1, "shop-stable:80", "shop.test", ""},
		{
			"a status by way of the object", main, `{"status": {"targetService": "forged:80"}}`, 1, "shop-stable:80",
			"shop.test", "",
		},
		{
			"a spec by way of the status", status, `{"spec": {"hosts": ["forged.test"]}}`, 1, "shop-stable:80",
			"shop.test", "",
		},
		{
			"an annotation", main, `{"metadata": {"annotations": {"http.kedify.io/weighted-backends": "[]"}}}`, 1,
			"shop-stable:80", "shop.test", "",
		},
		{"a spec", main, `{"spec": {"hosts": ["other.test"]}}`, 2, "shop-stable:80", "other.test", ""},
		{
			"a hash that is none", status,
			`{"status": {"dataPlane": {"annotationHash": "x", "effective": false, "proxies": {"ready": 0, "acked": 0}}}}`,
			2, "shop-stable:80", "other.test", `status.dataPlane.annotationHash`,
		},
		{
			"fewer than no proxies", status,
			`{"status": {"dataPlane": {"annotationHash": "", "effective": false, "proxies": {"ready": 0, "acked": -1}}}}`,
			2, "shop-stable:80", "other.test", `status.dataPlane.proxies.acked`,
		},
	} {
		got := rejection(t, patch(t.Context(), shared.admin, step.path, step.body))
		if !strings.Contains(got, step.refusals) || (got == "") != (step.refusals == "") {
			t.Errorf("%s: the API server returns %q, want %q in it", step.name, got, step.refusals)
		}
		object := shared.object(t, namespace, "shop")
		if object.Generation != step.generation || object.Status.TargetService != step.service ||
			object.Spec.Hosts[0] != step.host {
			t.Errorf("after %s: generation %d, status %q, host %q; want %d, %q, %q", step.name,
				object.Generation, object.Status.TargetService, object.Spec.Hosts[0], step.generation, step.service, step.host)
		}
	}
}
