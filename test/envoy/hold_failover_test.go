package envoy_test

import (
	"net/http"
	"testing"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/extauthz"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// TestFailover: a request that has waited too long is answered by the failover Service, in whatever spelling of the host, for an exact one and a
// wildcard. One that nobody holds never is, whatever it says of itself, nor is one that was held once the app is ready.
func TestFailover(t *testing.T) {
	t.Parallel()
	all := hostsWorld(t)
	const failover = "app"
	for _, object := range all.ScaledObjects {
		if name := object.Name; name == "shop" || name == "wide" {
			object.Spec.ColdStartTimeoutFailoverRef = &httpv1alpha1.ColdStartTimeoutFailoverRef{Service: failover, Port: 80, TimeoutSeconds: 1}
		}
	}
	zero := without(all, "shop", "wide")
	r := startHolding(t, "DELTA_GRPC", zero)
	forged := http.Header{translate.FailoverKey: {"true"}}
	for _, protocol := range spoken() {
		for _, host := range []string{"shop.example.com", "SHOP.example.com.:81", "a.example.com", "A.example.com"} {
			got := r.ask(t.Context(), protocol, host, "/", forged, nil)
			if got.by() != failover || !got.isCold() || got.header.Get(extauthz.ReasonHeader) != extauthz.ReasonFailover {
				t.Errorf("%s %s: by %q, %+v", protocol, host, got.by(), got)
			}
		}
	}
	if held := r.held("shop").Waiting + r.held("wide").Waiting; held != 0 {
		t.Errorf("%d requests are still held", held)
	}
	early := r.begin(t, "HTTP/1.1", "shop.example.com")
	r.awaitHeld(t, "shop", 1)
	r.await(t, r.show(t, all))
	if got := <-early; got.by() != "shop" {
		t.Errorf("the app was ready in time: by %q, %+v", got.by(), got)
	}
	for _, host := range []string{"shop.example.com", "SHOP.example.com", "a.example.com"} {
		if got := r.ask(t.Context(), "HTTP/1.1", host, "/", forged, nil); got.by() == failover || got.status != http.StatusOK {
			t.Errorf("%s is ready: by %q, %+v", host, got.by(), got)
		}
	}
}

// TestFailoverOfWhatTheNetHasCaught: one that a worker with an old route lets through.
func TestFailoverOfWhatTheNetHasCaught(t *testing.T) {
	t.Parallel()
	all := hostsWorld(t)
	all.ScaledObjects[2].Spec.ColdStartTimeoutFailoverRef = &httpv1alpha1.ColdStartTimeoutFailoverRef{Service: "app", Port: 80, TimeoutSeconds: 1}
	r := startHolding(t, "DELTA_GRPC", all)
	late := translated(t, without(all, "shop"), r.options)
	armed := late[resourcev3.ScopedRouteType]
	late[resourcev3.ScopedRouteType] = translated(t, all, r.options)[resourcev3.ScopedRouteType]
	r.publish(t, late)
	await.True(t, "the endpoints are confirmed", func() bool { return r.hasEndpoints(late) })
	waiting := r.begin(t, "HTTP/1.1", "shop.example.com")
	await.True(t, "it is caught", func() bool { return r.held("shop").ViaFallback == 1 })
	late[resourcev3.ScopedRouteType] = armed // The worker catches up.
	r.publish(t, late)
	if got := <-waiting; got.by() != "app" || got.header.Get(extauthz.ReasonHeader) != extauthz.ReasonFailover {
		t.Errorf("by %q: %+v", got.by(), got)
	}
}
