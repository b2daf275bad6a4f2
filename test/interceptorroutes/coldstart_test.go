package interceptorroutes

import (
	"net/http"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/extauthz"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// shortRate is a metric whose window ends soon after the last request.
const shortRate = "scalingMetric: {requestRate: {targetValue: 1, window: 2s, granularity: 1s}}, "

// wake waits until a request is queued, gives its app an endpoint, and returns the response.
func (s *environment) wake(t *testing.T, a *app, waiting <-chan response) response {
	t.Helper()
	s.awaitQueued(t, 1)
	s.setReady(t, a, true)
	return await.Receive(t, "the response", waiting)
}

// sleep removes the endpoint of an app, and waits until requests are queued.
func (s *environment) sleep(t *testing.T, a *app, host string) {
	t.Helper()
	s.setReady(t, a, false)
	s.awaitQueueing(t, host)
}

// TestColdStart: the first request at zero wakes the app and is served by it, with its body. Later requests do not wait.
// After the last request the app may scale to zero, and the next one waits again.
func TestColdStart(t *testing.T) {
	const host = "cold.test"
	cold := shared.newApp(t, "cold")
	shared.addRoute(t, "cold", shortRate+"rules: [{hosts: [cold.test]}]")
	shared.awaitActive(t, "cold", false)

	waiting := begin(t, request{host: host})
	shared.awaitActive(t, "cold", true)
	if got := shared.wake(t, cold, waiting); got.app != "cold" || got.header.Get(extauthz.ColdStartHeader) != "true" {
		t.Errorf("the first request: %+v", got)
	}
	expect(t, map[request]string{{host: host}: "cold"})
	if got := send(t, request{host: host, body: `{"key":"value"}`}); got.app != "cold" || got.body != `{"key":"value"}` {
		t.Errorf("a body: %+v", got)
	}

	shared.awaitActive(t, "cold", false)
	shared.sleep(t, cold, host)
	waiting = begin(t, request{host: host, body: "queued with its body"})
	if got := shared.wake(t, cold, waiting); got.app != "cold" || got.body != "queued with its body" {
		t.Errorf("a request with a body, at zero: %+v", got)
	}
}

// TestColdStartFallback: the fallback Service serves a request for which the target is not ready within
// timeouts.readiness, and the target serves it otherwise.
func TestColdStartFallback(t *testing.T) {
	late := shared.newApp(t, "late")
	shared.readyApp(t, "fallback")
	shared.addRoute(t, "late", "rules: [{hosts: [late.test]}], timeouts: {readiness: 1s}, "+
		"coldStart: {fallback: {service: {name: fallback, portName: web}}}")
	expect(t, map[request]string{{host: "late.test"}: "fallback"})
	shared.setReady(t, late, true)
	expect(t, map[request]string{{host: "late.test"}: "late"})
}

// TestPlaceholder: requests at zero receive the placeholder without waiting, and wake the app. It answers once it is
// ready.
func TestPlaceholder(t *testing.T) {
	const host = "placeholder.test"
	slow := shared.newApp(t, "placeholder")
	shared.addRoute(t, "placeholder", "rules: [{hosts: [placeholder.test]}], coldStart: {placeholder: {response: "+
		`{statusCode: 503, body: '{"status":"loading"}', headers: {Content-Type: application/json, X-Loading: "1"}}}}`)
	expect(t, map[request]string{{host: host}: `503 {"status":"loading"}`})
	got := send(t, request{host: host})
	if got.header.Get("Content-Type") != "application/json" || got.header.Get("X-Loading") != "1" {
		t.Errorf("the placeholder has the headers %v", got.header)
	}
	shared.awaitActive(t, "placeholder", true)
	shared.setReady(t, slow, true)
	expect(t, map[request]string{{host: host}: "placeholder"})
}

// TestPlaceholderWithFallback: the placeholder precedes the fallback, which would answer after a second.
func TestPlaceholderWithFallback(t *testing.T) {
	shared.newApp(t, "both")
	shared.readyApp(t, "both-fallback")
	shared.addRoute(t, "both", "rules: [{hosts: [both-settings.test]}], timeouts: {readiness: 1s}, "+
		"coldStart: {fallback: {service: {name: both-fallback, port: 80}}, placeholder: {response: {statusCode: 418}}}")
	expect(t, map[request]string{{host: "both-settings.test"}: "418"})
}

// TestStaticRoutes: a static route answers while the app is at zero, or always. Its requests do not wake the app, and
// are not counted.
func TestStaticRoutes(t *testing.T) {
	const host = "static.test"
	static := shared.newApp(t, "static")
	shared.readyApp(t, "witness")
	shared.addRoute(t, "witness", shortRate+"rules: [{hosts: [witness.test]}]")
	shared.addRoute(t, "static", shortRate+"rules: [{hosts: [static.test]}], staticRoutes: ["+
		"{rules: [{paths: [{value: /healthz}]}], response: {body: healthy, headers: {X-Static: 'true'}}}, "+
		"{rules: [{paths: [{value: /about}]}], response: {statusCode: 404, body: none}, responseMode: Always}]")
	answers := map[request]string{
		{host: host, path: "/healthz"}: "200 healthy", {host: host, path: "/about"}: "404 none",
	}
	expect(t, answers)
	if got := send(t, request{host: host, path: "/healthz"}); got.header.Get("X-Static") != "true" {
		t.Errorf("the static response has the headers %v", got.header)
	}
	// A later request to another app is counted, so those to the static routes would be counted too.
	await.True(t, "the scaler reports the requests to another app", func() bool {
		_ = send(t, request{host: "witness.test"})
		isActive, err := shared.isActive(t, "witness")
		return err == nil && isActive
	})
	if isActive, err := shared.isActive(t, "static"); isActive || err != nil {
		t.Errorf("requests to static routes: active is %t, %v", isActive, err)
	}

	waiting := begin(t, request{host: host})
	if got := shared.wake(t, static, waiting); got.app != "static" {
		t.Errorf("a request to the app: %+v", got)
	}
	answers[request{host: host, path: "/healthz"}] = "static"
	expect(t, answers)
}

// TestReadyAppIsNotReplaced: neither the fallback nor the placeholder affects an app that is ready and fails.
func TestReadyAppIsNotReplaced(t *testing.T) {
	shared.readyApp(t, "failing")
	shared.readyApp(t, "failing-fallback")
	shared.addRoute(t, "failing", "rules: [{hosts: [failing.test]}], timeouts: {readiness: 1s}, "+
		"coldStart: {fallback: {service: {name: failing-fallback, port: 80}}, placeholder: {response: {statusCode: 418}}}")
	expect(t, map[request]string{{host: "failing.test"}: "failing"})
	if got := send(t, request{host: "failing.test", path: "/unavailable"}); got.app != "failing" ||
		got.status != http.StatusServiceUnavailable {
		t.Errorf("got %+v, want the app's own 503", got)
	}
}
