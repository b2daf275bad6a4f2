package interceptorroutes

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/extauthz"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// TestTimeouts sends requests to apps that respond after pause, or never.
func TestTimeouts(t *testing.T) {
	const slow, silent = "/slow", "/silent"
	timeout := strconv.Itoa(http.StatusGatewayTimeout)
	shared.readyApp(t, "timeouts")
	for name, c := range map[string]struct {
		timeouts, annotation string
		path, want           string // the app, or the status of the proxy's response
	}{
		"no timeout":                         {"", "", slow, "timeouts"},
		"response header within the limit":   {"responseHeader: 1h", "", slow, "timeouts"},
		"response header after the limit":    {"responseHeader: 200ms", "", silent, timeout},
		"response header 0s is no limit":     {"responseHeader: 0s", "", slow, "timeouts"},
		"request within the limit":           {"request: 1h", "", slow, "timeouts"},
		"request after the limit":            {"request: 200ms", "", silent, timeout},
		"request 0s is no limit":             {"request: 0s", "http.kedify.io/request-timeout: 200ms", slow, "timeouts"},
		"request is missing: the annotation": {"", "http.kedify.io/request-timeout: 200ms", silent, timeout},
		"the shorter one of both":            {"request: 200ms, responseHeader: 1h", "", silent, timeout},
	} {
		t.Run(name, func(t *testing.T) {
			shared.addRoute(t, "timeouts", "rules: [{hosts: [timeouts.test]}], timeouts: {"+c.timeouts+"}", c.annotation)
			got := ""
			await.Described(t, "the response "+c.want, func() bool {
				got = send(t, request{host: "timeouts.test", path: c.path}).String()
				return got == c.want
			}, func() string { return got })
		})
	}
}

// TestReadiness: a request waits for its app as long as timeouts.readiness permits. 0s permits more than 1s.
func TestReadiness(t *testing.T) {
	generous, never, long := shared.newApp(t, "generous"), shared.newApp(t, "impatient"), shared.newApp(t, "patient")
	shared.addRoute(t, generous.name, "rules: [{hosts: [generous.test]}], timeouts: {readiness: 1h}")
	shared.addRoute(t, never.name, "rules: [{hosts: [impatient.test]}], timeouts: {readiness: 1ms}")
	shared.addRoute(t, long.name, "rules: [{hosts: [patient.test]}], timeouts: {readiness: 0s}")

	if got := shared.wake(t, generous, begin(t, request{host: "generous.test"})); got.app != "generous" {
		t.Errorf("within the limit: %+v", got)
	}

	waiting := begin(t, request{host: "patient.test"})
	shared.awaitQueued(t, 1)
	expect(t, map[request]string{{host: "impatient.test"}: strconv.Itoa(http.StatusServiceUnavailable)})
	got := send(t, request{host: "impatient.test"})
	if got.header.Get(extauthz.ReasonHeader) != extauthz.ReasonDeadline || got.header.Get("Retry-After") == "" {
		t.Errorf("after the limit: %+v", got)
	}
	if got := shared.wake(t, long, waiting); got.app != "patient" {
		t.Errorf("without a limit: %+v", got)
	}
}
