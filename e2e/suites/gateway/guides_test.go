package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestGuides walks through the guides one after the other, in one cluster.
func TestGuides(t *testing.T) {
	w := start(t)
	t.Run("my-app", func(t *testing.T) { testMyApp(t, w, "gateway", "my-gateway") })
	t.Run("bookinfo", func(t *testing.T) { testBookinfo(t, w, "gateway", "http-gateway") })
	t.Run("connections", func(t *testing.T) { testConnections(t, w) })
	t.Run("my-app on Traefik", func(t *testing.T) { testMyApp(t, w, "gateway-traefik", "traefik") })
	t.Run("bookinfo on Traefik", func(t *testing.T) { testBookinfo(t, w, "gateway-traefik", "traefik") })
}

// testMyApp is the guide with the HTTPRoute my-app-route, word by word: its
// pauses last as long as there. A second canary is given up halfway. Gateway is
// the file with the Gateway, address the name of the address that leads to it.
func testMyApp(t *testing.T, w world, gateway, address string) { //nolint:thelper // a subtest: its own lines tell how far it came
	w.apply(t, "my-app", gateway, "services", "httproute", "rollout")
	w.explain(t, "rollout,httproute")
	const image = "my-registry.example.com/my-app:"
	c := begin(t, w, guide{
		rollout: "my-app", container: "app", route: "my-app-route", stable: "my-app-stable", canary: "my-app-canary",
		gateway: address, host: "api.example.com", path: "/my-app", colors: []string{"v1.0.0", "v1.1.0", "v1.2.0"},
		rate: 200, sample: 1500,
	})
	c.rests(t)
	c.everything(t, "v1.0.0")

	c.setImage(t, image+"v1.1.0")
	c.reaches(t, 5)
	c.split(t, 5, "v1.1.0")
	c.promote(t)
	for _, weight := range []int{25, 50, 75} {
		c.reaches(t, weight)
		c.split(t, weight, "v1.1.0")
	}
	c.promoted(t)
	c.rests(t)
	c.everything(t, "v1.1.0")
	want := []string{"to 0", "from 0 to 5", "from 5 to 25", "from 25 to 50", "from 50 to 75", "from 75 to 100", "from 100 to 0"}
	if diff := cmp.Diff(want, c.weightChanges(t)); diff != "" {
		t.Errorf("TrafficWeightUpdated events (-want +got):\n%s", diff)
	}
	if c.storedChanges(t) == 0 {
		t.Error("the cluster has no TrafficWeightUpdated event")
	}

	c.setImage(t, image+"v1.2.0")
	c.reaches(t, 5)
	c.promote(t)
	c.reaches(t, 25)
	c.split(t, 25, "v1.2.0")
	c.abort(t)
	c.rests(t)
	c.everything(t, "v1.1.0")
}

// testBookinfo is the guide with the HTTPRoute bookinfo-reviews, whose weights
// are omitted and whose canary can be tried by a header before it has any.
func testBookinfo(t *testing.T, w world, gateway, address string) { //nolint:thelper // a subtest: its own lines tell how far it came
	w.apply(t, "bookinfo", gateway, "services", "httproute", "rollout")
	w.explain(t, "rollout,httproute")
	image := func(version string) string { return "docker.io/istio/examples-bookinfo-reviews-" + version + ":1.20.2" }
	c := begin(t, w, guide{
		rollout: "reviews-rollout", container: "reviews", route: "bookinfo-reviews", stable: "reviews-stable", canary: "reviews-canary",
		gateway: address, host: "www.bookinfo.com", path: "/reviews/0", colors: []string{"v1", "v2", "v3"},
		// A first sample and a fresh one fit into the guide's pauses of 10 s.
		rate: 200, sample: 700,
	})
	c.rests(t)
	c.everything(t, "v1")

	c.setImage(t, image("v2"))
	c.pausedForQA(t)
	c.asQA(t, "v2")
	c.split(t, 0, "v2") // everybody else
	c.promote(t)
	for _, weight := range []int{10, 20, 40, 60} {
		c.reaches(t, weight)
		c.split(t, weight, "v2")
		c.asQA(t, "v2")
	}
	c.promoted(t)
	c.rests(t)
	c.everything(t, "v2")

	c.setImage(t, image("v3"))
	c.pausedForQA(t)
	c.asQA(t, "v3")
	c.promote(t)
	c.reaches(t, 10)
	c.split(t, 10, "v3")
	c.abort(t)
	c.rests(t)
	c.asQA(t, "v2")
	c.everything(t, "v2")
}

// pausedForQA waits until the canary runs without any weight, and can be
// reached by the header.
func (c *walk) pausedForQA(t *testing.T) {
	t.Helper()
	await(t, "a header route behind the weights 100/0, marked and accepted", patience, func() bool {
		seen := c.seen.Get()
		return c.object.Get().Paused() && c.at(0) && c.marked() && seen.accepted() && len(seen.Spec.Rules) == 2 &&
			len(seen.Spec.Rules[1].BackendRefs) == 1 && seen.Spec.Rules[1].BackendRefs[0].Name == c.canary
	}, func() string { return c.seen.Get().String() + "; " + c.object.Get().String() })
}

// asQA asks with the header of the guide's testers; the color must answer all.
func (c *walk) asQA(t *testing.T, color string) {
	t.Helper()
	client := &http.Client{Timeout: requestTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	var last string
	await(t, "an answer from "+color+" to a tester", patience, func() bool {
		last = c.tester(t.Context(), client)
		return last == color
	}, func() string { return last })
	const requests = 50
	for range requests {
		if answer := c.tester(t.Context(), client); answer != color {
			t.Fatalf("a request with the header role: qa got %q, want %q", answer, color)
		}
	}
	t.Logf("%d requests with the header role: qa were answered by %s", requests, color)
}

// tester asks once with the header, and returns the color or what went wrong.
func (c *walk) tester(ctx context.Context, client *http.Client) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.addresses[c.gateway]+c.path, http.NoBody)
	if err != nil {
		return err.Error()
	}
	request.Host = c.host
	request.Header.Set("role", "qa")
	response, err := client.Do(request)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return fmt.Sprintf("%s: %s %v", response.Status, strings.TrimSpace(string(body)), err)
	}
	color, err := strconv.Unquote(string(body))
	if err != nil {
		return fmt.Sprintf("not a color: %q", body)
	}
	return color
}
