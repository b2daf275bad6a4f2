package interceptorroute_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/interceptorroute"
	"github.com/kedify/argo-rollouts-plugin/internal/model/staticresponse"
)

// convert converts a spec in YAML. Every spec has a target.
func convert(t *testing.T, spec string) httpv1alpha1.HTTPScaledObjectSpec {
	t.Helper()
	route := &httpv1beta1.InterceptorRoute{}
	if err := yaml.Unmarshal([]byte("{spec: {target: {service: shop, port: 80}, "+spec+"}}"), route); err != nil {
		t.Fatal(err)
	}
	return interceptorroute.Convert(route).Spec
}

func TestRules(t *testing.T) {
	t.Parallel()
	value := "a"
	for name, c := range map[string]struct {
		rules string
		want  []httpv1alpha1.Rule
	}{
		"none":    {"rules: []", nil},
		"all":     {"rules: [{}]", []httpv1alpha1.Rule{{}}},
		"a host":  {"rules: [{hosts: [a.test]}]", []httpv1alpha1.Rule{{Hosts: []string{"a.test"}}}},
		"no host": {`rules: [{hosts: [""]}]`, []httpv1alpha1.Rule{{Hosts: []string{"*"}}}},
		"paths": {
			"rules: [{paths: [{value: /a}, {value: b/}, {value: //c}, {value: /}]}]",
			[]httpv1alpha1.Rule{{PathPrefixes: []string{"/a", "/b/", "/c", "/"}}},
		},
		"headers": {
			"rules: [{headers: [{name: X-A, value: a}, {name: X-B}]}]",
			[]httpv1alpha1.Rule{{Headers: []httpv1alpha1.Header{{Name: "X-A", Value: &value}, {Name: "X-B"}}}},
		},
		"two": {
			"rules: [{hosts: [a.test]}, {hosts: [b.test]}]",
			[]httpv1alpha1.Rule{{Hosts: []string{"a.test"}}, {Hosts: []string{"b.test"}}},
		},
	} {
		if diff := cmp.Diff(c.want, convert(t, c.rules).Converted.Rules); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestTimeouts: timeouts.request limits the time that a request waits for the target.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	const unset = -1
	const fallback = ", coldStart: {fallback: {service: {name: late, portName: http}}}"
	for spec, want := range map[string]struct{ wait, request, response, failover time.Duration }{
		"timeouts: {}":                               {unset, unset, unset, 0},
		"timeouts: {readiness: 10s}":                 {10 * time.Second, unset, unset, 0},
		"timeouts: {readiness: 0s}":                  {0, unset, unset, 0},
		"timeouts: {readiness: 10s, request: 0s}":    {10 * time.Second, 0, unset, 0},
		"timeouts: {readiness: 10s, request: 5s}":    {5 * time.Second, 5 * time.Second, unset, 0},
		"timeouts: {readiness: 0s, request: 5s}":     {5 * time.Second, 5 * time.Second, unset, 0},
		"timeouts: {request: 5s}":                    {5 * time.Second, 5 * time.Second, unset, 0},
		"timeouts: {responseHeader: 0s}":             {unset, unset, 0, 0},
		"timeouts: {}" + fallback:                    {unset, unset, unset, 30 * time.Second},
		"timeouts: {readiness: 0s}" + fallback:       {0, unset, unset, 30 * time.Second},
		"timeouts: {readiness: 500ms}" + fallback:    {500 * time.Millisecond, unset, unset, 500 * time.Millisecond},
		"timeouts: {request: 20s}" + fallback:        {20 * time.Second, 20 * time.Second, unset, 20 * time.Second},
		"timeouts: {request: 1m}" + fallback:         {time.Minute, time.Minute, unset, 30 * time.Second},
		"timeouts: {}, coldStart: {placeholder: {}}": {unset, unset, unset, 0},
	} {
		got := convert(t, spec)
		of := func(duration *metav1.Duration) time.Duration {
			if duration == nil {
				return unset
			}
			return duration.Duration
		}
		timeouts := got.Timeouts
		if timeouts == nil {
			timeouts = &httpv1alpha1.Timeouts{}
		}
		have := struct{ wait, request, response, failover time.Duration }{
			of(timeouts.ConditionWait), of(got.Converted.RequestTimeout), of(timeouts.ResponseHeader),
			got.Converted.FailoverTimeout.Duration,
		}
		if have != want || (got.ColdStartTimeoutFailoverRef != nil) != (want.failover > 0) {
			t.Errorf("%s: got %v with failover %v, want %v", spec, have, got.ColdStartTimeoutFailoverRef, want)
		}
	}
}

// TestStaticResponses reads the annotations of the converted object as package resolve does.
func TestStaticResponses(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]struct {
		routes, placeholder string
		unsupported         int
	}{
		"rules: [{}]": {},
		"coldStart: {placeholder: {response: {body: wait}}}": {
			placeholder: `{"statusCode":503,"body":"wait"}`,
		},
		"coldStart: {placeholder: {response: {statusCode: 202, headers: {content-type: text/html, A: b}, bodyFromConfigMap: {name: a, key: b}}}}": {
			placeholder: `{"statusCode":202,"headers":{"A":"b"},"contentType":"text/html","bodyFromConfigMap":{"name":"a","key":"b"}}`,
		},
		"coldStart: {placeholder: {response: {bodyFromConfigMap: {name: a}}}}": {unsupported: 1},
		`staticRoutes: [{rules: [{hosts: [a.test, ""], paths: [{value: /a}, {value: b}]}, {headers: [{name: X}]}], response: {}},
			{rules: [{}], response: {bodyFromConfigMap: {name: a}}},
			{rules: [{}], response: {statusCode: 404, headers: {A: b}}, responseMode: Always}]`: {
			routes: `[{"statusCode":200,"match":[{"host":"a.test","pathPrefix":"/a"},{"host":"a.test","pathPrefix":"/b"},` +
				`{"pathPrefix":"/a"},{"pathPrefix":"/b"},{"headers":[{"name":"X"}]}],"mode":"WhenUnavailable"},` +
				`{"statusCode":404,"headers":{"A":"b"},"match":[{}],"mode":"Always"}]`,
			unsupported: 1,
		},
	} {
		route := &httpv1beta1.InterceptorRoute{}
		if err := yaml.Unmarshal([]byte("{spec: {target: {service: shop, port: 80}, "+spec+"}}"), route); err != nil {
			t.Fatal(err)
		}
		object := interceptorroute.Convert(route)
		routes := object.Annotations[httpv1alpha1.AnnotationStaticResponses]
		placeholder := object.Annotations[httpv1alpha1.AnnotationPlaceholderResponse]
		if routes != want.routes || placeholder != want.placeholder || len(object.Spec.Converted.Unsupported) != want.unsupported {
			t.Errorf("%s: got routes %s, placeholder %s, unsupported %q", spec, routes, placeholder,
				object.Spec.Converted.Unsupported)
		}
		if _, err := staticresponse.Parse(routes); routes != "" && err != nil {
			t.Errorf("%s: %v", spec, err)
		}
		if _, err := staticresponse.ParseResponse(placeholder); placeholder != "" && err != nil {
			t.Errorf("%s: %v", spec, err)
		}
		if len(route.Annotations) != 0 {
			t.Errorf("%s: the InterceptorRoute was modified: %v", spec, route.Annotations)
		}
	}
}

// TestStatus reads the report of the data plane from the annotation.
func TestStatus(t *testing.T) {
	t.Parallel()
	route := &httpv1beta1.InterceptorRoute{ObjectMeta: metav1.ObjectMeta{
		Namespace: "apps", Name: "shop", UID: "u1",
		Annotations: map[string]string{httpv1alpha1.AnnotationStatus: `{"uid": "u1", "dataPlane": {"proxies": {"ready": 2}}}`},
	}, Status: httpv1beta1.InterceptorRouteStatus{Conditions: []metav1.Condition{{Type: "Ready", Reason: "Reconciled"}}}}
	got := interceptorroute.Convert(route)
	if got.Status.DataPlane == nil || got.Status.DataPlane.Proxies.Ready != 2 || got.Status.Conditions[0].Reason != "Reconciled" {
		t.Errorf("got status %+v", got.Status)
	}
	if kind := interceptorroute.KindOf(got).String(); kind != "http.keda.sh/v1beta1, Kind=InterceptorRoute" {
		t.Errorf("got kind %s", kind)
	}
}
