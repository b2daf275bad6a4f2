package envoy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// TestResponsesOutliveTheirCanary: responses of a canary's Pod are complete although the canary's weight, endpoints and
// cluster are removed before they begin.
func TestResponsesOutliveTheirCanary(t *testing.T) {
	t.Parallel()
	backends := stickyBackends(t)
	s := serve(t, "DELTA_GRPC", translated(t,
		newInputs(t, backends, stickyObject(50, stickyBy("header: X-User"))), translate.DefaultOptions()))
	c := s.newKnownCrowd(t, "HTTP/1.1", 50)
	user := slices.Index(c.visit(t, stickyURL).Backends, "shop-canary")
	if user < 0 {
		t.Fatal("the canary has no user")
	}
	held := map[string]<-chan result{}
	for _, protocol := range protocols() {
		held[protocol] = s.startWith(t, protocol, "shop.example.com", "/held", c.Headers[user])
		await.Receive(t, "the request at the canary", backends[1].arrived)
	}
	s.apply(t, newInputs(t, backends[:1], stickyObject(-1, nil)))
	hasCluster := func(service string) bool {
		text, err := s.Admin(t.Context(), "/clusters")
		return err != nil || strings.Contains(string(text), "apps/shop/"+service+"::")
	}
	await.True(t, "the removal of the canary's cluster", func() bool { return !hasCluster("shop-canary") })
	if !hasCluster("shop-stable") {
		t.Fatal("the stable cluster is missing as well")
	}
	close(backends[1].release)
	for protocol, answer := range held {
		if got := await.Receive(t, "the response", answer); got.err != nil || got.backend() != "shop-canary" {
			t.Errorf("%s: %+v", protocol, got)
		}
	}
}
