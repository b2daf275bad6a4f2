package envoy_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/traffic"
)

// answer is a response, with the request that the backend received if it was one of ours.
type answer struct {
	status int
	header http.Header
	seen   echoed
}

// get sends a GET request through the proxy. The URL's host becomes the Host header.
func (p *proxy) get(ctx context.Context, target string, header http.Header) (answer, error) {
	host, path, _ := strings.Cut(strings.TrimPrefix(target, "http://"), "/")
	got, err := traffic.Get(ctx, "http://"+p.address+"/"+path, host, header)
	if err != nil {
		return answer{}, err
	}
	result := answer{status: got.Status, header: got.Header}
	_ = json.Unmarshal(got.Body, &result.seen) // Envoy's own responses are not JSON
	return result, nil
}

// mustGet is get for requests that must receive a response.
func (p *proxy) mustGet(t *testing.T, target string, header http.Header) answer {
	t.Helper()
	got, err := p.get(t.Context(), target, header)
	if err != nil {
		t.Fatalf("%s: %v", target, err)
	}
	return got
}

// TestRouting tests which backend serves each host, path and header.
func TestRouting(t *testing.T) {
	t.Parallel()
	var backends []*backend
	object := func(name string, hosts ...string) *httpv1alpha1.HTTPScaledObject {
		backends = append(backends, startBackend(t, name))
		return kit.NewScaledObject(namespace, name, name, len(backends), hosts...)
	}
	prefixed := func(object *httpv1alpha1.HTTPScaledObject, prefixes ...string) *httpv1alpha1.HTTPScaledObject {
		object.Spec.PathPrefixes = prefixes
		return object
	}
	headed := func(object *httpv1alpha1.HTTPScaledObject, headers ...httpv1alpha1.Header) *httpv1alpha1.HTTPScaledObject {
		object.Spec.Headers = headers
		return object
	}
	one := "1"
	objects := []*httpv1alpha1.HTTPScaledObject{
		object("shop", "Shop.Example.com."),
		object("wide", "*.example.com"),
		object("narrow", "*.eu.example.com"),
		prefixed(object("anyhost", "*"), "/everywhere"),
		prefixed(object("app", "paths.example.com"), "/app"),
		prefixed(object("deep", "paths.example.com"), "/app/v2/"),
		headed(object("present", "headers.example.com"), httpv1alpha1.Header{Name: "X-Canary"}),
		headed(object("exact", "headers.example.com"), httpv1alpha1.Header{Name: "X-Canary", Value: &one}),
		headed(object("both", "headers.example.com"), httpv1alpha1.Header{Name: "X-Canary", Value: &one},
			httpv1alpha1.Header{Name: "X-User", Value: &one}),
		object("anything", "patterns.example.com"),
		headed(object("wildcard", "patterns.example.com"), httpv1alpha1.Header{Name: "X-Agent", ValueWildcard: new("Curl*")}),
		headed(object("release", "patterns.example.com"),
			httpv1alpha1.Header{Name: "X-Release", ValueWildcard: new("rel.v?-*stable")}),
		headed(object("star", "patterns.example.com"), httpv1alpha1.Header{Name: "X-Star", ValueWildcard: new("*")}),
		headed(object("literal", "patterns.example.com"), httpv1alpha1.Header{Name: "X-Agent", Value: new("Curl/8")}),
		headed(object("regex", "patterns.example.com"),
			httpv1alpha1.Header{Name: "X-Agent", ValueRegex: new(`Go/[0-9]+(\.[0-9]+)*|Deno`)},
			httpv1alpha1.Header{Name: "X-Environment", Value: new("Prod")}),
	}
	p := start(t, translated(t, newInputs(t, backends, objects...), translate.DefaultOptions()))
	canary, user := http.Header{"X-Canary": {"1"}}, http.Header{"X-User": {"1"}}
	both := http.Header{"X-Canary": {"1"}, "X-User": {"1"}}
	for _, c := range []struct {
		target string
		header http.Header
		want   string // the backend, "" for 404
	}{
		{"http://shop.example.com/", nil, "shop"},
		{"http://shop.example.com/any/path?query", nil, "shop"},
		{"http://SHOP.example.COM/", nil, "shop"},
		{"http://shop.example.com:1234/", nil, "shop"},
		{"http://shop.example.com./", nil, "shop"},
		{"http://Shop.example.com.:80/", nil, "shop"},
		{"http://a.example.com/", nil, "wide"},
		{"http://A.Example.com.:8080/", nil, "wide"},
		{"http://a.b.example.com/", nil, "wide"},
		{"http://eu.example.com/", nil, "wide"},
		{"http://a.eu.example.com/", nil, "narrow"},
		{"http://a.b.eu.example.com/", nil, "narrow"},
		{"http://example.com/", nil, ""},
		{"http://badexample.com/", nil, ""},
		{"http://unknown.example.org/", nil, ""},
		{"http://unknown.example.org/everywhere", nil, "anyhost"},
		{"http://10.1.2.3:99/everywhere/x", nil, "anyhost"},
		{"http://paths.example.com/everywhere", nil, ""},
		{"http://paths.example.com/", nil, ""},
		{"http://paths.example.com/app", nil, "app"},
		{"http://paths.example.com/app/", nil, "app"},
		{"http://paths.example.com/app/x", nil, "app"},
		{"http://paths.example.com/app?x=1", nil, "app"},
		{"http://paths.example.com/apple", nil, ""},
		{"http://paths.example.com/APP", nil, ""},
		{"http://paths.example.com/app/v2", nil, "deep"},
		{"http://paths.example.com/app/v2/x", nil, "deep"},
		{"http://paths.example.com/app/v20", nil, "app"},
		{"http://paths.example.com/x/../app", nil, "app"},
		{"http://paths.example.com/app/../apple", nil, ""},
		{"http://headers.example.com/", nil, ""},
		{"http://headers.example.com/", user, ""},
		{"http://headers.example.com/", http.Header{"X-Canary": {"2"}}, "present"},
		{"http://headers.example.com/", canary, "exact"},
		{"http://headers.example.com/", both, "both"},
		{"http://patterns.example.com/", nil, "anything"},
		{"http://patterns.example.com/", http.Header{"X-Agent": {"cURL/7.88"}}, "wildcard"},
		{"http://patterns.example.com/", http.Header{"X-Agent": {"Curl"}}, "wildcard"},
		{"http://patterns.example.com/", http.Header{"X-Agent": {"libcurl"}}, "anything"},
		{"http://patterns.example.com/", http.Header{"X-Agent": {"Curl/8"}}, "literal"},
		{"http://patterns.example.com/", http.Header{"X-Agent": {"curl/8"}}, "wildcard"},
		{"http://patterns.example.com/", http.Header{"X-Release": {"REL.V2-alpha.STABLE"}}, "release"},
		{"http://patterns.example.com/", http.Header{"X-Release": {"rel.v2-stable"}}, "release"},
		{"http://patterns.example.com/", http.Header{"X-Release": {"relxv2-alpha.stable"}}, "anything"},
		{"http://patterns.example.com/", http.Header{"X-Release": {"rel.v-stable"}}, "anything"},
		{"http://patterns.example.com/", http.Header{"X-Release": {"rel.v2-stable.1"}}, "anything"},
		{"http://patterns.example.com/", http.Header{"X-Star": {""}}, "star"},
		{"http://patterns.example.com/", http.Header{"X-Star": {"any"}}, "star"},
		{"http://patterns.example.com/", http.Header{"X-Agent": {"gO/1.26.0"}, "X-Environment": {"Prod"}}, "regex"},
		{"http://patterns.example.com/", http.Header{"X-Agent": {"deno"}, "X-Environment": {"Prod"}}, "regex"},
		{"http://patterns.example.com/", http.Header{"X-Agent": {"Go/1.26.0-x"}, "X-Environment": {"Prod"}}, "anything"},
		{"http://patterns.example.com/", http.Header{"X-Agent": {"Go/1.26.0"}, "X-Environment": {"prod"}}, "anything"},
		{"http://patterns.example.com/", http.Header{"X-Agent": {"Go/1.26.0"}}, "anything"},
		{"http://patterns.example.com/", http.Header{"X-Environment": {"Prod"}}, "anything"},
	} {
		got := p.mustGet(t, c.target, c.header)
		status := http.StatusOK
		if c.want == "" {
			status = http.StatusNotFound
		}
		if got.status != status || got.seen.Backend != c.want {
			t.Errorf("%s %v: got %d from %q, want %d from %q", c.target, c.header, got.status, got.seen.Backend, status, c.want)
		}
	}
	checkAbsoluteForm(t, p)
}

// checkAbsoluteForm sends a request in absolute form, as a client with an HTTP proxy does.
func checkAbsoluteForm(t *testing.T, p *proxy) {
	t.Helper()
	through := &url.URL{Scheme: "http", Host: p.address}
	client := &http.Client{
		Timeout: await.Patience(), Transport: &http.Transport{Proxy: http.ProxyURL(through), DisableKeepAlives: true},
	}
	response, err := client.Do(request(t, "http://Shop.example.com:99/x"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("absolute form: got %d, want 200", response.StatusCode)
	}
}

// TestForwardedHeaders tests which parts of requests and responses the backend and the client receive unchanged.
func TestForwardedHeaders(t *testing.T) {
	t.Parallel()
	plain, h2c := startBackend(t, "plain"), startBackend(t, "h2c")
	objects := newInputs(t, []*backend{plain, h2c},
		kit.NewScaledObject(namespace, "plain", "plain", 1, "plain.example.com"),
		kit.NewScaledObject(namespace, "h2c", "h2c", 1, "h2c.example.com"))
	objects.Services[1].Ports[0].Protocol = model.HTTP2
	p := start(t, translated(t, objects, translate.DefaultOptions()))
	trusting := translate.DefaultOptions()
	trusting.TrustedHops = 1
	behindIngress := start(t, translated(t, objects, trusting))

	header := http.Header{
		"X-Envoy-Retry-On": {"5xx"}, "X-Envoy-Upstream-Rq-Timeout-Ms": {"1"}, "X-Forwarded-Proto": {"https"},
		"X-Forwarded-For": {"192.0.2.1"},
		"X-Request-Id":    {"3b8e9f0e-0000-4000-8000-000000000000"},
	}
	got := p.mustGet(t, "http://Plain.example.com:1234/", header)
	if got.seen.Host != "Plain.example.com:1234" || got.seen.Proto != "HTTP/1.1" {
		t.Errorf("the app saw host %q over %s, want the client's own over HTTP/1.1", got.seen.Host, got.seen.Proto)
	}
	for name := range got.seen.Header {
		if strings.HasPrefix(name, "X-Envoy-") && name != "X-Envoy-External-Address" {
			t.Errorf("the app saw %s", name)
		}
	}
	if got.header.Get("Server") != "the-app" || got.header.Get("X-Envoy-Upstream-Service-Time") != "" {
		t.Errorf("the response was changed: %v", got.header)
	}
	if id := got.seen.Header.Get("X-Request-Id"); id != header.Get("X-Request-Id") {
		t.Errorf("the request id became %q", id)
	}
	if proto := got.seen.Header.Get("X-Forwarded-Proto"); proto != "http" {
		t.Errorf("without trusted hops the app saw X-Forwarded-Proto %q, want http", proto)
	}
	got = behindIngress.mustGet(t, "http://plain.example.com/", header)
	if proto := got.seen.Header.Get("X-Forwarded-Proto"); proto != "https" {
		t.Errorf("behind an Ingress the app saw X-Forwarded-Proto %q, want https", proto)
	}
	// Envoy appends the client that it sees, or the machine's own address when that is the loopback.
	if hops := got.seen.Header.Get("X-Forwarded-For"); !strings.HasPrefix(hops, "192.0.2.1,") {
		t.Errorf("behind an Ingress the app saw X-Forwarded-For %q", hops)
	}
	if got := p.mustGet(t, "http://h2c.example.com/", nil); got.seen.Proto != "HTTP/2.0" {
		t.Errorf("an app with appProtocol h2c was spoken to in %q", got.seen.Proto)
	}
	checkHTTP2(t, p)
	checkWebSocket(t, p.address)
}

// checkHTTP2 sends a request over HTTP/2 in clear text.
func checkHTTP2(t *testing.T, p *proxy) {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	// sends a request once, unlike the transport
	connection, err := transport.NewClientConn(t.Context(), "http", p.address)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	response, err := (&http.Client{
		Transport: connection, Timeout: await.Patience(),
	}).Do(request(t, "http://plain.example.com/"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("HTTP/2: got %d, want 200", response.StatusCode)
	}
}

// request returns a GET request.
func request(t *testing.T, url string) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return request
}

// checkWebSocket upgrades a connection and sends a line in both directions.
func checkWebSocket(t *testing.T, address string) {
	t.Helper()
	connection, reader := openWebSocket(t, address)
	defer connection.Close()
	if _, err := io.WriteString(connection, "hello\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := reader.ReadString('\n'); err != nil || line != "hello\n" {
		t.Errorf("got %q, %v back", line, err)
	}
}

// openWebSocket upgrades a connection to plain.example.com. Its reads and writes fail after await.Patience.
func openWebSocket(t *testing.T, address string) (net.Conn, *bufio.Reader) {
	t.Helper()
	connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if err := connection.SetDeadline(time.Now().Add(await.Patience())); err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(connection,
		"GET /websocket HTTP/1.1\r\nHost: plain.example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(connection)
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %d, want 101", response.StatusCode)
	}
	return connection, reader
}

// TestHeaderPatternsAtTheLimit: Envoy accepts the largest patterns that the interceptor accepts.
func TestHeaderPatternsAtTheLimit(t *testing.T) {
	t.Parallel()
	answering := startBackend(t, "largest")
	object := kit.NewScaledObject(namespace, "largest", "largest", 1, "largest.example.com")
	request := http.Header{}
	for i, part := range []struct{ wildcard, regex, value string }{
		{wildcard: "k", value: "K"},
		{wildcard: "s", value: "S"},
		{wildcard: "7", value: "7"},
		{wildcard: "?", value: "x"},
		{wildcard: "a*", value: "ab"},
		{regex: "[a-ks-y]", value: "K"},
		{regex: "(?:k|S)", value: "s"},
		{regex: "(a+)*", value: "A"},
		{regex: "[^k]?", value: "x"},
		{regex: `\w`, value: "_"},
		{regex: "a{2}", value: "aa"},
	} {
		header := httpv1alpha1.Header{Name: "X-" + string(rune('A'+i))}
		repeat := func(count int) model.HeaderText {
			if part.regex != "" {
				header.ValueRegex = new(strings.Repeat(part.regex, count))
			} else {
				header.ValueWildcard = new(strings.Repeat(part.wildcard, count))
			}
			return model.HeaderText{Name: header.Name, Wildcard: header.ValueWildcard, Regex: header.ValueRegex}
		}
		count := 1
		for err := error(nil); err == nil; count++ {
			_, err = repeat(count + 1).Parse()
		}
		count--
		repeat(count)
		object.Spec.Headers = append(object.Spec.Headers, header)
		request[header.Name] = []string{strings.Repeat(part.value, count)}
	}
	p := start(t, translated(t, newInputs(t, []*backend{answering}, object), translate.DefaultOptions()))
	if got := p.mustGet(t, "http://largest.example.com/", request); got.seen.Backend != "largest" {
		t.Errorf("%+v", got)
	}
}
