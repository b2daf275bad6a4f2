package envoy_test

import (
	"net/http"
	"strconv"
	"testing"

	"sigs.k8s.io/yaml"

	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/interceptorroute"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
)

// interceptorRoutes are InterceptorRoutes by the name of their Service, as users of the KEDA HTTP add-on write them.
const interceptorRoutes = `
hosts: {rules: [{hosts: [a.example.com, B.example.com]}]}
wide: {rules: [{hosts: ["*.example.com"]}]}
several: {rules: [
  {hosts: [a.example.org], paths: [{value: /cart}, {value: catalog/}]},
  {hosts: [b.example.org], headers: [{name: X-Tenant, value: "1"}, {name: X-Any}]},
  {hosts: [c.example.org]}]}
deep: {rules: [{hosts: [a.example.org], paths: [{value: /cart/items}]}]}
tenant: {rules: [{hosts: [c.example.org], headers: [{name: X-Tenant}]}]}
rest: {rules: [{paths: [{value: /everywhere}]}]}
static: {
  rules: [{hosts: [static.example.org]}],
  staticRoutes: [
    {rules: [{paths: [{value: /ping}]}, {headers: [{name: X-Ping}]}], response: {body: pong}, responseMode: Always},
    {rules: [{paths: [{value: /down}]}], response: {statusCode: 503, body: down}}]}
`

// TestInterceptorRoutes tests which backend serves each host, path and header by the rules of InterceptorRoutes.
func TestInterceptorRoutes(t *testing.T) {
	t.Parallel()
	specs := map[string]httpv1beta1.InterceptorRouteSpec{}
	if err := yaml.Unmarshal([]byte(interceptorRoutes), &specs); err != nil {
		t.Fatal(err)
	}
	var backends []*backend
	inputs := newInputs(t, nil)
	for name, spec := range specs {
		backends = append(backends, startBackend(t, name))
		route := &httpv1beta1.InterceptorRoute{Spec: spec}
		route.Namespace, route.Name = namespace, name
		route.Spec.Target = httpv1beta1.TargetRef{Service: name, Port: 80}
		inputs.ScaledObjects = append(inputs.ScaledObjects, interceptorroute.Convert(route))
	}
	p := start(t, translated(t, newInputs(t, backends, inputs.ScaledObjects...), translate.DefaultOptions()))
	header := func(pairs ...string) http.Header {
		made := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			made.Set(pairs[i], pairs[i+1])
		}
		return made
	}
	for _, c := range []struct {
		target string
		header http.Header
		want   string // the backend, or the status of another response
	}{
		{"http://a.example.com/", nil, "hosts"},
		{"http://b.example.com:8080/x", nil, "hosts"},
		{"http://c.example.com/", nil, "wide"},
		{"http://x.c.example.com/", nil, "wide"},
		{"http://a.example.org/cart", nil, "several"},
		{"http://a.example.org/cart/x", nil, "several"},
		{"http://a.example.org/carts", nil, "404"},
		{"http://a.example.org/catalog", nil, "several"},
		{"http://a.example.org/catalog/1", nil, "several"},
		{"http://a.example.org/cart/items/1", nil, "deep"},
		{"http://a.example.org/everywhere", nil, "404"}, // A known host does not fall through to all hosts.
		{"http://b.example.org/", nil, "404"},
		{"http://b.example.org/", header("X-Tenant", "1"), "404"},
		{"http://b.example.org/", header("X-Tenant", "2", "X-Any", ""), "404"},
		{"http://b.example.org/", header("X-Tenant", "1", "X-Any", "2"), "several"},
		{"http://c.example.org/", nil, "several"},
		{"http://c.example.org/", header("X-Tenant", "7"), "tenant"},
		{"http://unknown.example.net/everywhere/x", nil, "rest"},
		{"http://unknown.example.net/", nil, "404"},
		{"http://static.example.org/", nil, "static"},
		{"http://static.example.org/ping", nil, "200 pong"},
		{"http://static.example.org/x", header("X-Ping", "1"), "200 pong"},
		{"http://static.example.org/down", nil, "static"}, // The target is available.
	} {
		got := p.exchange(t, http.MethodGet, c.target, c.header)
		seen := p.mustGet(t, c.target, c.header).seen.Backend
		if seen == "" {
			seen = strconv.Itoa(got.status)
			if got.status == http.StatusOK {
				seen += " " + got.body
			}
		}
		if seen != c.want {
			t.Errorf("%s %v: got %q, want %q", c.target, c.header, seen, c.want)
		}
	}
}
