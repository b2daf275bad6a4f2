package envoy_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/extauthz"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// exchange sends a request without following redirects, and reads the whole response.
func (p *proxy) exchange(t *testing.T, method, target string, header http.Header) result {
	t.Helper()
	host, path, _ := strings.Cut(strings.TrimPrefix(target, "http://"), "/")
	request, err := http.NewRequestWithContext(await.Context(t), method, "http://"+p.address+"/"+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = host
	if header != nil {
		request.Header = header
	}
	response, err := (&http.Transport{DisableKeepAlives: true, DisableCompression: true}).RoundTrip(request)
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	return result{status: response.StatusCode, header: response.Header, body: string(body)}
}

// static returns an object of app shop with static responses.
func static(text string, hosts ...string) *httpv1alpha1.HTTPScaledObject {
	return kit.WithAnnotation(kit.NewScaledObject(namespace, "shop", "shop", 1, hosts...),
		httpv1alpha1.AnnotationStaticResponses, text)
}

// TestStaticBodies: the body arrives byte by byte, with the status, the headers and the length, for GET, HEAD and POST,
// over exact hosts and wildcards.
func TestStaticBodies(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"text":          "down",
		"percent signs": "100 % %START_TIME% %% %REQ(Host)% %",
		"unicode":       "<h1>Wartung für alle ✓ 維護</h1>\r\n\t",
		"4096 bytes":    strings.Repeat("x", 4096),
		"4097 bytes":    strings.Repeat("x", 4097),
		"32 KiB":        strings.Repeat("page ", 32<<10/5),
		"nothing":       "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := static("- statusCode: 404\n  contentType: text/html; charset=utf-8\n"+
				"  headers: {Retry-After: '600', X-Literal: '%START_TIME% 100%', X-Empty: ''}\n  body: "+strconv.Quote(body),
				"shop.example.com", "*.example.com")
			p := start(t, translated(t, newInputs(t, []*backend{startBackend(t, "shop")}, object), translate.DefaultOptions()))
			for _, host := range []string{"shop.example.com", "Shop.example.com.:81", "a.example.com"} {
				for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodHead} {
					got, want, contentType := p.exchange(t, method, "http://"+host+"/any?a=b", nil), body, "text/html; charset=utf-8"
					if method == http.MethodHead {
						want = ""
					}
					if body == "" { // Envoy removes the header, and adds no length to the response to HEAD.
						contentType = ""
						got.header.Set("Content-Length", "0")
					}
					length := got.header.Get("Content-Length")
					if got.status != http.StatusNotFound || got.body != want || length != strconv.Itoa(len(body)) ||
						got.header.Get("X-Literal") != "%START_TIME% 100%" || got.header.Get("Retry-After") != "600" ||
						len(got.header.Values("X-Empty")) != 1 || got.header.Get("Content-Type") != contentType ||
						got.header.Get(extauthz.ReasonHeader) != translate.ReasonStatic {
						t.Errorf("%s %s: %d, %.80q of %s bytes, %v", method, host, got.status, got.body, length, got.header)
					}
				}
			}
			if requests := p.stat(t, "cluster."+translate.ClusterName(model.Key{Namespace: namespace, Name: "shop"},
				model.Key{Name: "shop"})+".upstream_rq_total"); requests != 0 {
				t.Errorf("the app received %d requests", requests)
			}
		})
	}
}

// TestLargestStaticBody sends the largest body of a ConfigMap.
func TestLargestStaticBody(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("page ", model.MaxStaticBody/5)
	inputs := newInputs(t, []*backend{startBackend(t, "shop")},
		static("[{bodyFromConfigMap: {name: pages, key: down.html}}]", "shop.example.com"))
	inputs.ConfigMaps = resolve.ConfigMaps{
		{Namespace: namespace, Name: "pages"}: {Data: map[string]string{"down.html": body}},
	}
	p := start(t, translated(t, inputs, translate.DefaultOptions()))
	if got := p.exchange(t, http.MethodGet, "http://shop.example.com/", nil); got.status != 503 || got.body != body {
		t.Errorf("%d, %d bytes, %v", got.status, len(got.body), got.header)
	}
}

// TestStaticContentTypes sends headers Accept of browsers and other clients, in one line and in several.
func TestStaticContentTypes(t *testing.T) {
	t.Parallel()
	object := static(`
- bodies:
    - {contentType: application/json, body: "{}"}
    - {contentType: text/html, body: html}
    - {contentType: application/vnd.example.shop.v1.resource, body: other}
`, "shop.example.com")
	p := start(t, translated(t, newInputs(t, []*backend{startBackend(t, "shop")}, object), translate.DefaultOptions()))
	for _, c := range []struct {
		accept []string
		want   string
	}{
		{nil, "{}"},
		{[]string{"*/*"}, "{}"},
		{[]string{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}, "html"},
		{[]string{"TEXT/HTML"}, "html"},
		{[]string{"text/html;q=0.5, application/json"}, "{}"},
		{[]string{"text/html;q=0.5, application/json;q=0"}, "html"},
		{[]string{"text/html;q=0"}, "{}"},
		{[]string{"text/*;q=0.1"}, "html"},
		{[]string{"application/vnd.example.shop.v1.resource"}, "other"},
		{[]string{"image/png", "text/html"}, "html"},
		{[]string{"application/json;q=0.2", "text/html"}, "html"},
		{[]string{"text/htmlx"}, "{}"},
		{[]string{"\xff\xfe"}, "{}"},
	} {
		header := http.Header{}
		if c.accept != nil {
			header["Accept"] = c.accept
		}
		got := p.exchange(t, http.MethodGet, "http://shop.example.com/", header)
		if got.body != c.want || got.header.Get("Vary") != "Accept" {
			t.Errorf("Accept: %q: %d, %q, %v; want %q", c.accept, got.status, got.body, got.header, c.want)
		}
	}
}

// TestStaticRedirects sends requests with and without a query and a port.
func TestStaticRedirects(t *testing.T) {
	t.Parallel()
	object := static(`
- {match: [{pathPrefix: /host}], redirect: "https://new.example.com"}
- {match: [{pathPrefix: /port}], redirect: "http://new.example.com:8080", statusCode: 307}
- {match: [{pathPrefix: /path}], redirect: "/here", statusCode: 308}
- {match: [{pathPrefix: /query}], redirect: "https://new.example.com/a%20b?c=%25", statusCode: 301}
- {match: [{pathPrefix: /root}], redirect: "https://[2001:db8::1]/", statusCode: 303}
- {match: [{pathPrefix: /header}], statusCode: 302, headers: {Location: "relative?a=100%25"}}
`, "shop.example.com")
	p := start(t, translated(t, newInputs(t, []*backend{startBackend(t, "shop")}, object), translate.DefaultOptions()))
	for target, want := range map[string]string{
		"/host":         "302 https://new.example.com/host",
		"/host/a?b=c":   "302 https://new.example.com/host/a?b=c",
		"/host/%20?b=%": "302 https://new.example.com/host/%20?b=%",
		"/port/x?y":     "307 http://new.example.com:8080/port/x?y",
		"/path/x?y":     "308 http://shop.example.com/here",
		"/query/x?y=z":  "301 https://new.example.com/a%20b?c=%25",
		"/root?y=z":     "303 https://[2001:db8::1]/",
		"/header?y=z":   "302 relative?a=100%25",
	} {
		got := p.exchange(t, http.MethodGet, "http://shop.example.com"+target, nil)
		if text := fmt.Sprint(got.status, " ", got.header.Get("Location")); text != want || got.body != "" {
			t.Errorf("%s: %s %q, want %s", target, text, got.body, want)
		}
	}
	got := p.exchange(t, http.MethodGet, "http://shop.example.com:81/host", nil)
	if location := got.header.Get("Location"); location != "https://new.example.com/host" {
		t.Errorf("a host with a port: %s", location)
	}
}

// TestStaticPrecedence has static responses next to a canary with header routes. The first match applies, before header
// routes. Requests of mode WhenUnavailable follow the header routes and the weights, and are not counted.
func TestStaticPrecedence(t *testing.T) {
	t.Parallel()
	all := canaryInputs(t, "100", "0")
	object := all.ScaledObjects[0]
	object.Annotations[httpv1alpha1.AnnotationManagedRoutes] = `[{"name":"qa","matches":[{"headers":[{"name":"Role","type":"Exact","value":"qa"}]}]}]`
	object.Annotations[httpv1alpha1.AnnotationStaticResponses] = `
- {match: [{path: /down, headers: [{name: X-User}]}, {host: other.example.com}], body: first}
- {match: [{pathPrefix: /down}], body: second}
- {match: [{pathRegex: "/(live|ready)z(/[a-z]+)?"}], body: third}
- {match: [{pathPrefix: /healthz}], mode: WhenUnavailable, statusCode: 200, body: static}
`
	object.Annotations[httpv1alpha1.AnnotationHealthcheckPath] = "/down/lb"
	object.Annotations[httpv1alpha1.AnnotationHealthcheckResponse] = httpv1alpha1.HealthcheckStatic
	object.Spec.Hosts = append(object.Spec.Hosts, "*.example.com")
	p := start(t, translated(t, all, translate.DefaultOptions()))
	qa := func(more ...string) http.Header {
		header := http.Header{"Role": {"qa"}}
		for _, name := range more {
			header.Set(name, "1")
		}
		return header
	}
	for _, c := range []struct {
		target string
		header http.Header
		want   string // the body or the backend
	}{
		{"shop.example.com/down", qa("X-User"), "first"},
		{"shop.example.com/down", qa(), "second"},
		{"shop.example.com/down/a", qa("X-User"), "second"},
		{"shop.example.com/downs", qa(), "shop-canary"},
		{"shop.example.com/readyz?verbose", qa(), "third"},
		{"shop.example.com/livez/ping", nil, "third"},
		{"shop.example.com/livez/1", nil, "shop-stable"},
		{"shop.example.com/", qa("X-User"), "shop-canary"},
		{"shop.example.com/", nil, "shop-stable"},
		{"other.example.com/", nil, "first"},
		{"Other.example.com:81/", nil, "first"},
		{"another.example.com/", nil, "shop-stable"},
		{"shop.example.com/down/lb", http.Header{"User-Agent": {"GoogleHC/1.0"}}, ""},
		{"shop.example.com/healthz", nil, "shop-stable"},
		{"shop.example.com/healthz/a", qa(), "shop-canary"},
	} {
		got := p.exchange(t, http.MethodGet, "http://"+c.target, c.header)
		text := got.body
		if got.backend() != "" {
			text = got.backend()
		}
		if text != c.want {
			t.Errorf("%s %v: %d %.80q, want %q", c.target, c.header, got.status, text, c.want)
		}
	}
	key := model.Key{Namespace: namespace, Name: "shop"}
	for name, want := range map[string]int{
		translate.ClusterName(key, model.Key{Name: "shop-stable"}):   3,
		translate.ClusterName(key, model.Key{Name: "shop-canary"}):   2,
		translate.UncountedName(key, model.Key{Name: "shop-stable"}): 1,
		translate.UncountedName(key, model.Key{Name: "shop-canary"}): 1,
	} {
		if got := p.stat(t, "cluster."+name+".upstream_rq_total"); got != want {
			t.Errorf("cluster %s received %d requests, want %d", name, got, want)
		}
	}
}

// TestStaticAtZero: without endpoints, a response of mode WhenUnavailable wakes nothing. The placeholder wakes the app,
// for every client and method, and ends with the first endpoint.
func TestStaticAtZero(t *testing.T) {
	t.Parallel()
	all := hostInputs(t)
	all.ScaledObjects[2].Annotations = map[string]string{
		httpv1alpha1.AnnotationStaticResponses:     "[{match: [{path: /healthz}], mode: WhenUnavailable, statusCode: 200, body: up}]",
		httpv1alpha1.AnnotationPlaceholderResponse: "{statusCode: 202, headers: {Retry-After: '7', X-A: '100 %'}, body: 'soon ✓ %'}",
	}
	r := startWithReplica(t, "DELTA_GRPC", without(all, "shop"))
	for _, protocol := range protocols() {
		for _, host := range []string{"shop.example.com", "Shop.example.com.:81"} {
			got := r.send(t.Context(), protocol, host, "/healthz", nil, nil)
			if got.status != http.StatusOK || got.body != "up" || r.queued("shop").Waiting > 0 {
				t.Errorf("%s %s: a health check: %+v", protocol, host, got)
			}
		}
	}
	for _, protocol := range protocols() {
		got := r.send(t.Context(), protocol, "shop.example.com", "/", nil, strings.NewReader("a body"))
		if got.status != http.StatusAccepted || got.body != "soon ✓ %" || got.header.Get("Retry-After") != "7" ||
			got.header.Get("X-A") != "100 %" || got.header.Get(extauthz.ReasonHeader) != extauthz.ReasonPlaceholder ||
			got.header.Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%s: %+v", protocol, got)
		}
	}
	if got := r.exchange(t, http.MethodHead, "http://shop.example.com/", nil); got.status != http.StatusAccepted ||
		got.body != "" || got.header.Get("Content-Length") != strconv.Itoa(len("soon ✓ %")) {
		t.Errorf("HEAD: %+v", got)
	}
	if got := r.queued("shop"); got.Waiting != 1 {
		t.Errorf("queue: %+v, want one request", got)
	}
	r.await(t, r.publishInputs(t, all))
	await.True(t, "the app answers", func() bool {
		got := r.send(t.Context(), "HTTP/1.1", "shop.example.com", "/healthz", nil, nil)
		return got.backend() == "shop" && r.send(t.Context(), "HTTP/1.1", "shop.example.com", "/", nil, nil).backend() == "shop"
	})
	if got := r.queued("shop"); got.Waiting != 0 {
		t.Errorf("queue: %+v, want no request", got)
	}
}

// TestPlaceholderInTheFallbackListener: a proxy with outdated routes gives the placeholder, too.
func TestPlaceholderInTheFallbackListener(t *testing.T) {
	t.Parallel()
	all := hostInputs(t)
	all.ScaledObjects[2].Annotations = map[string]string{httpv1alpha1.AnnotationPlaceholderResponse: "{statusCode: 418, body: soon}"}
	r := startWithReplica(t, "DELTA_GRPC", all)
	r.lag(t, all, "shop")
	r.observe(t, without(all, "shop"))
	for _, protocol := range protocols() {
		if got := r.send(t.Context(), protocol, "shop.example.com", "/", nil, nil); got.status != 418 || got.body != "soon" ||
			got.header.Get("Retry-After") != "1" {
			t.Errorf("%s: %+v", protocol, got)
		}
	}
	if got := r.queued("shop"); got.Waiting != 1 {
		t.Errorf("queue: %+v, want one request", got)
	}
}

// TestPlaceholderOfAMinimum: an app that is never at zero has a placeholder while none of its Pods is ready.
func TestPlaceholderOfAMinimum(t *testing.T) {
	t.Parallel()
	object := kit.WithAnnotation(kit.NewScaledObject(namespace, "shop", "shop", 1, "shop.example.com"),
		httpv1alpha1.AnnotationPlaceholderResponse, "body: soon")
	object.Spec.Replicas = &httpv1alpha1.ReplicaRange{Min: new(int32(2))}
	all := newInputs(t, []*backend{startBackend(t, "shop")}, object)
	p := start(t, translated(t, without(all, "shop"), translate.DefaultOptions()))
	got := p.exchange(t, http.MethodGet, "http://shop.example.com/", nil)
	if got.status != 503 || got.body != "soon" || got.header.Get(extauthz.ReasonHeader) != translate.ReasonPlaceholder {
		t.Errorf("%+v", got)
	}
}
