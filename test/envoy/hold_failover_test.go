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

// TestFailover: the failover Service answers a request at its queue deadline, for an exact host and a wildcard in any
// spelling. It does not answer a request that is not queued, whatever headers the client sends, or a queued request of
// an app that becomes ready.
func TestFailover(t *testing.T) {
	t.Parallel()
	all := hostInputs(t)
	const failover = "app"
	for _, object := range all.ScaledObjects {
		if name := object.Name; name == "shop" || name == "wide" {
			object.Spec.ColdStartTimeoutFailoverRef = &httpv1alpha1.ColdStartTimeoutFailoverRef{
				Service: failover, Port: 80, TimeoutSeconds: new(int32(1)),
			}
		}
	}
	zero := without(all, "shop", "wide")
	r := startWithReplica(t, "DELTA_GRPC", zero)
	forged := http.Header{translate.FailoverKey: {"true"}}
	for _, protocol := range protocols() {
		for _, host := range []string{"shop.example.com", "SHOP.example.com.:81", "a.example.com", "A.example.com"} {
			got := r.send(t.Context(), protocol, host, "/", forged, nil)
			if got.backend() != failover || !got.isCold() || got.header.Get(extauthz.ReasonHeader) != extauthz.ReasonFailover {
				t.Errorf("%s %s: by %q, %+v", protocol, host, got.backend(), got)
			}
		}
	}
	if queued := r.queued("shop").Waiting + r.queued("wide").Waiting; queued != 0 {
		t.Errorf("%d requests are still queued", queued)
	}
	request := r.start(t, "HTTP/1.1", "shop.example.com")
	r.awaitQueued(t, "shop", 1)
	r.await(t, r.publishInputs(t, all))
	if got := <-request; got.backend() != "shop" {
		t.Errorf("the app was ready before the deadline: by %q, %+v", got.backend(), got)
	}
	for _, host := range []string{"shop.example.com", "SHOP.example.com", "a.example.com"} {
		if got := r.send(t.Context(), "HTTP/1.1", host, "/", forged, nil); got.backend() == failover ||
			got.status != http.StatusOK {
			t.Errorf("%s is ready: by %q, %+v", host, got.backend(), got)
		}
	}
}

// TestFailoverViaFallback: a worker with an old route sends a request to the fallback listener, and the failover
// Service answers it.
func TestFailoverViaFallback(t *testing.T) {
	t.Parallel()
	all := hostInputs(t)
	all.ScaledObjects[2].Spec.ColdStartTimeoutFailoverRef = &httpv1alpha1.ColdStartTimeoutFailoverRef{
		Service: "app", Port: 80, TimeoutSeconds: new(int32(1)),
	}
	r := startWithReplica(t, "DELTA_GRPC", all)
	lagging := translated(t, without(all, "shop"), r.options)
	current := lagging[resourcev3.ScopedRouteType]
	lagging[resourcev3.ScopedRouteType] = translated(t, all, r.options)[resourcev3.ScopedRouteType]
	r.publish(t, lagging)
	await.True(t, "the endpoints are acknowledged", func() bool { return r.hasEndpoints(lagging) })
	waiting := r.start(t, "HTTP/1.1", "shop.example.com")
	await.True(t, "the request is queued via the fallback listener",
		func() bool { return r.queued("shop").ViaFallback == 1 })
	lagging[resourcev3.ScopedRouteType] = current // The worker catches up.
	r.publish(t, lagging)
	if got := <-waiting; got.backend() != "app" || got.header.Get(extauthz.ReasonHeader) != extauthz.ReasonFailover {
		t.Errorf("by %q: %+v", got.backend(), got)
	}
}
