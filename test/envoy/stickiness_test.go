package envoy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/visitors"
)

// stickyURL is the address of the object shop. The users' clients connect to the proxy instead.
const stickyURL = "http://shop.example.com/"

// crowd are users whose requests go to the proxy.
type crowd struct{ *visitors.Crowd }

// visits are the outcomes of one request of each user.
type visits struct{ visitors.Visits }

// newCrowd returns users that send requests to the proxy.
func (s *served) newCrowd(t *testing.T, protocol string, users int) *crowd {
	t.Helper()
	all, err := visitors.New(users, s.crowdTransport(t, protocol))
	if err != nil {
		t.Fatal(err)
	}
	return &crowd{all}
}

// crowdTransport returns the transport of users: their requests share connections to the proxy.
func (s *served) crowdTransport(t *testing.T, protocol string) *http.Transport {
	t.Helper()
	transport := &http.Transport{
		Protocols: new(http.Protocols), MaxConnsPerHost: 16, MaxIdleConnsPerHost: 16,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, s.address)
		},
	}
	transport.Protocols.SetHTTP1(protocol == "HTTP/1.1")
	transport.Protocols.SetUnencryptedHTTP2(protocol == "HTTP/2")
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// visit sends one request of each user. None may fail.
func (c *crowd) visit(t *testing.T, url string) visits {
	t.Helper()
	all := c.Visit(t.Context(), url, func(body []byte) (string, error) {
		var echo echoed
		if err := json.Unmarshal(body, &echo); err != nil {
			return "", fmt.Errorf("body %.80s: %w", body, err)
		}
		return echo.Backend, nil
	})
	if err := all.Err(); err != nil {
		t.Fatal(err)
	}
	return visits{all}
}

// checkMoves checks that all moves are of one kind; "" for none.
func (v visits) checkMoves(t *testing.T, what string, before visits, allowed string) {
	t.Helper()
	moves := v.Moves(before.Visits)
	if allowed != "" {
		t.Logf("%s: %v", what, moves)
	}
	delete(moves, allowed)
	if len(moves) > 0 {
		t.Errorf("%s: users moved: %v, want only %q", what, moves, allowed)
	}
}

// stickyObject returns the object shop, with annotations and a canary at a weight, or without a canary below 0.
func stickyObject(weight int, annotations map[string]string) *httpv1alpha1.HTTPScaledObject {
	object := kit.NewScaledObject(namespace, "shop", "shop-stable", 1, "shop.example.com", "*.shop.example.com")
	if weight >= 0 {
		object = kit.WithSplit(object, split.Backend{Service: "shop-stable", Weight: 100 - uint32(weight)},
			split.Backend{Service: "shop-canary", Weight: uint32(weight)})
	}
	for name, text := range annotations {
		object = kit.WithAnnotation(object, name, text)
	}
	return object
}

// stickyBackends starts the backends of the object shop.
func stickyBackends(t *testing.T) []*backend {
	t.Helper()
	return []*backend{startBackend(t, "shop-stable"), startBackend(t, "shop-canary")}
}

// apply publishes inputs and waits until the proxy has them.
func (s *served) apply(t *testing.T, inputs resolve.Inputs) {
	t.Helper()
	resources := translated(t, inputs, translate.DefaultOptions())
	s.publish(t, resources)
	s.await(t, resources)
}

// stickyBy returns the annotation for stickiness.
func stickyBy(text string) map[string]string {
	return map[string]string{httpv1alpha1.AnnotationStickiness: text}
}

const (
	toCanary = "shop-stable → shop-canary"
	toStable = "shop-canary → shop-stable"
)

// checkStep sets a weight and sends two requests of each user: the canary has its share of the users, users have only
// moved as allowed, and none moves between the two requests. It returns the second visit.
func (s *served) checkStep(
	t *testing.T, c *crowd, inputs resolve.Inputs, weight int, before *visits, allowed string,
) *visits {
	t.Helper()
	s.apply(t, inputs)
	first := c.visit(t, stickyURL)
	second := c.visit(t, stickyURL)
	what := fmt.Sprintf("weight %d", weight)
	if before != nil {
		first.checkMoves(t, what, *before, allowed)
	}
	second.checkMoves(t, what+", second request", first, "")
	first.checkShare(t, what, float64(max(0, weight))/100)
	if n := second.Cookies(); n > 0 {
		t.Errorf("%s: %d cookies were set again", what, n)
	}
	return &second
}

// TestStickyUsers: users with cookies stay on one version through the steps of a canary. They only move to the canary
// while its weight grows, and only back while it shrinks. A later canary has the same users.
func TestStickyUsers(t *testing.T) {
	t.Parallel()
	for protocol, users := range map[string]int{"HTTP/1.1": 2000, "HTTP/2": 300} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			backends := stickyBackends(t)
			at := func(weight int) resolve.Inputs {
				return newInputs(t, backends, stickyObject(weight, stickyBy("cookie: {}")))
			}
			s := serve(t, "DELTA_GRPC", translated(t, at(20), translate.DefaultOptions()))
			c := s.newCrowd(t, protocol, users)
			at20 := s.checkStep(t, c, at(20), 20, nil, "")
			last := at20
			for _, weight := range []int{50, 80, 100} {
				last = s.checkStep(t, c, at(weight), weight, last, toCanary)
			}
			for _, weight := range []int{50, 0} { // an abort
				last = s.checkStep(t, c, at(weight), weight, last, toStable)
			}
			last = s.checkStep(t, c, at(-1), 0, last, "")
			again := s.checkStep(t, c, at(20), 20, last, toCanary)
			again.checkMoves(t, "the next canary", *at20, "")
		})
	}
}

// TestStickyCookie: the first response sets one cookie with the configured attributes, whose value is the id that Envoy
// has given the request, in addition to the cookies of the app. Without stickiness and after the canary none is set.
func TestStickyCookie(t *testing.T) {
	t.Parallel()
	backends := stickyBackends(t)
	inputs := func(weight int, annotations map[string]string) resolve.Inputs {
		return newInputs(t, backends, stickyObject(weight, annotations))
	}
	sticky := stickyBy("cookie: {name: 'a%b', path: /%25, maxAge: 60, secure: true, sameSite: Strict, httpOnly: false}")
	s := serve(t, "DELTA_GRPC", translated(t, inputs(50, sticky), translate.DefaultOptions()))
	for _, protocol := range protocols() {
		for _, host := range []string{"shop.example.com", "Shop.example.com.:81", "a.shop.example.com"} {
			got := s.send(t.Context(), protocol, host, "/", nil, nil)
			var echo echoed
			_ = json.Unmarshal([]byte(got.body), &echo)
			want := []string{
				"a%b=" + echo.Header.Get("X-Request-Id") + "; Path=/%25; Max-Age=60; Secure; SameSite=Strict",
			}
			if set := got.header.Values("Set-Cookie"); !slices.Equal(set, want) || len(want[0]) < 80 {
				t.Errorf("%s %s: %q, want %q", protocol, host, set, want)
			}
		}
	}
	for name, without := range map[string]resolve.Inputs{
		"no stickiness": inputs(50, nil), "no canary": inputs(-1, sticky), "a header": inputs(50, stickyBy("header: x-user")),
		"an address": inputs(50, stickyBy("sourceAddress: {}")),
	} {
		s.apply(t, without)
		if got := s.send(t.Context(), "HTTP/1.1", "shop.example.com", "/", nil, nil); got.backend() == "" ||
			len(got.header.Values("Set-Cookie")) > 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestFormsOfCookies sends cookies in any form. A client whose cookie the proxy does not accept gets one; a client that
// gets none stays on its side.
func TestFormsOfCookies(t *testing.T) {
	t.Parallel()
	backends := stickyBackends(t)
	s := serve(t, "DELTA_GRPC", translated(t, newInputs(t, backends, stickyObject(50, stickyBy("cookie: {name: side}"))),
		translate.DefaultOptions()))
	value := strings.Repeat("x", 3000)
	for _, c := range []struct {
		cookies []string // the values of the headers Cookie
		isKnown bool
	}{
		{[]string{"side=v"}, true},
		{[]string{"a=1; side=v; b=2"}, true},
		{[]string{"a=1;side=v"}, true},
		{[]string{"a=1;  side=v"}, true},
		{[]string{`side="v"`}, true},
		{[]string{"side=v; side=w"}, true},
		{[]string{"side=v=w"}, true},
		{[]string{"side=v; side="}, true},
		{[]string{"side=" + value}, true},
		{[]string{"a=1", "side=v"}, true},
		{nil, false},
		{[]string{""}, false},
		{[]string{"side="}, false},
		{[]string{`side=""`}, false},
		{[]string{"side=; side=v"}, false},
		{[]string{"side"}, false},
		{[]string{"Side=v"}, false},
		{[]string{"xside=v"}, false},
		{[]string{"side2=v; x=side=v"}, false},
		{[]string{"a=1,side=v"}, false},
		{[]string{";;;=;"}, false},
	} {
		for _, protocol := range protocols() {
			header := http.Header{"Cookie": c.cookies}
			sides := map[string]int{}
			for range 16 {
				got := s.send(t.Context(), protocol, "shop.example.com", "/", header, nil)
				sides[got.backend()]++
				if set := len(got.header.Values("Set-Cookie")); (set == 0) != c.isKnown {
					t.Fatalf("%s %.60q: %d cookies set, %+v", protocol, c.cookies, set, got)
				}
			}
			if c.isKnown && len(sides) > 1 {
				t.Errorf("%s %.60q: answered by %v", protocol, c.cookies, sides)
			}
		}
	}
}

// TestStickyHeader: users that a header identifies stay on one version, without cookies. Requests without the header
// are distributed by the weights.
func TestStickyHeader(t *testing.T) {
	t.Parallel()
	for _, protocol := range protocols() {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			backends := stickyBackends(t)
			at := func(weight int) resolve.Inputs {
				return newInputs(t, backends, stickyObject(weight, stickyBy("header: X-User-Id")))
			}
			s := serve(t, "DELTA_GRPC", translated(t, at(20), translate.DefaultOptions()))
			c := s.newCrowd(t, protocol, 400)
			for i := range c.Headers {
				c.Headers[i] = http.Header{"X-User-Id": {fmt.Sprintf("user-%d", i)}}
			}
			last := s.checkStep(t, c, at(20), 20, nil, "")
			last = s.checkStep(t, c, at(50), 50, last, toCanary)
			s.checkStep(t, c, at(10), 10, last, toStable)
			s.apply(t, at(50))
			anonymous := s.newCrowd(t, protocol, 100)
			first, second := anonymous.visit(t, stickyURL), anonymous.visit(t, stickyURL)
			if first.Cookies() > 0 || len(second.Moves(first.Visits)) != 2 {
				t.Errorf("without the header: %d cookies, moves %v", first.Cookies(), second.Moves(first.Visits))
			}
		})
	}
}
