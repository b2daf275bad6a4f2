package gather_test

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts/gather"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// proxies is an API server with three proxies in two EndpointSlices: one is not Ready, and one does not return Envoy
// statistics.
type proxies struct{ t *testing.T }

const proxySlices = `{"metadata":{},"items":[
{"metadata":{"name":"a","namespace":"shop","labels":{"kubernetes.io/service-name":"kedify-proxy"}},"endpoints":[
 {"addresses":["10.0.0.1"],"conditions":{"ready":true},"targetRef":{"kind":"Pod","name":"proxy-2"}},
 {"addresses":["10.0.0.2"],"conditions":{"ready":false},"targetRef":{"kind":"Pod","name":"proxy-3"}}]},
{"metadata":{"name":"b","namespace":"shop","labels":{"kubernetes.io/service-name":"kedify-proxy"}},"endpoints":[
 {"addresses":["10.0.0.3"],"targetRef":{"kind":"Pod","name":"proxy-1"}},
 {"addresses":["10.0.0.1"],"conditions":{"ready":true},"targetRef":{"kind":"Pod","name":"proxy-2"}}]}]}`

// RoundTrip implements http.RoundTripper.
func (p proxies) RoundTrip(request *http.Request) (*http.Response, error) {
	code, body := http.StatusOK, ""
	switch path := request.URL.Path; path {
	case "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices":
		body = proxySlices
	case "/api/v1/namespaces/shop/pods/proxy-1:9901/proxy/stats":
		body = p.stats(request)
	case "/api/v1/namespaces/shop/pods/proxy-2:9901/proxy/stats":
		body = "upstream connect error"
	default:
		p.t.Errorf("unexpected request for %s", path)
	}
	header := http.Header{"Content-Type": []string{"application/json"}}
	return &http.Response{
		StatusCode: code, Header: header, Body: io.NopCloser(strings.NewReader(body)),
		Request: request,
	}, nil
}

// stats returns the statistics of an Envoy that match the filter.
func (p proxies) stats(request *http.Request) string {
	filter, err := regexp.Compile(request.URL.Query().Get("filter"))
	if err != nil || request.URL.Query().Get("format") != "json" {
		p.t.Errorf("query %s: %v", request.URL.RawQuery, err)
		return ""
	}
	var matching []string
	for name, counter := range map[string]string{
		"cluster.shop/web/stable.upstream_rq_total": "40", "cluster.shop/web/canary.upstream_rq_total": "10",
		"cluster.shop/web/canary/mirror.upstream_rq_total": "7", "cluster.shop/web/canary.upstream_rq_5xx": "3",
		"cluster.shop/webshop/stable.upstream_rq_total": "5", "cluster.other.shop/web/stable.upstream_rq_total": "6",
	} {
		if filter.MatchString(name) {
			matching = append(matching, `{"name":"`+name+`","value":`+counter+`}`)
		}
	}
	return `{"stats":[` + strings.Join(matching, ",") + `]}`
}

// TestProxyRequests: each Ready proxy is queried once, and an error of one does not affect the others.
func TestProxyRequests(t *testing.T) {
	t.Parallel()
	config := &rest.Config{Host: "https://api.test", Transport: proxies{t}, QPS: -1}
	reader := gather.New(kube.NewClient(func() (*rest.Config, error) { return config, nil }), "shop")
	object := new(httpv1alpha1.HTTPScaledObject)
	object.Namespace, object.Name = "shop", "web"
	got, err := reader.ProxyRequests(t.Context(), new(facts.Facts), object)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[1].Err == nil || !strings.Contains(got[1].Err.Error(), "not Envoy statistics") {
		t.Fatalf("got %+v", got)
	}
	want := facts.ProxyRequests{Proxy: "proxy-1", Requests: map[string]int64{"stable": 40, "canary": 10}}
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
