package interceptorroutes

import (
	"context"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// TestRouteUpdate changes the target of a route, and then its host, while requests are sent: each one is answered.
func TestRouteUpdate(t *testing.T) {
	shared.readyApp(t, "before")
	shared.readyApp(t, "after")
	shared.addRoute(t, "before", "rules: [{hosts: [update.test]}]")
	expect(t, map[request]string{{host: "update.test"}: "before"})

	shared.setRoute(t, "before", "target: {service: after, port: 80}, rules: [{hosts: [update.test]}]")
	await.True(t, "the other app answers", func() bool {
		got := send(t, request{host: "update.test"})
		if got.app == "" {
			t.Errorf("a request during the update: %+v", got)
		}
		return got.app == "after"
	})

	shared.setRoute(t, "before", "target: {service: after, port: 80}, rules: [{hosts: [updated.test]}]")
	expect(t, map[request]string{{host: "update.test"}: rejected, {host: "updated.test"}: "after"})
}

// TestRouteDeletion deletes one of two routes. The other one is not affected.
func TestRouteDeletion(t *testing.T) {
	for _, name := range []string{"deleted", "kept"} {
		shared.readyApp(t, name)
		shared.addRoute(t, name, "rules: [{hosts: ["+name+".test]}]")
	}
	expect(t, map[request]string{{host: "deleted.test"}: "deleted", {host: "kept.test"}: "kept"})
	shared.remove(t, "deleted")
	await.True(t, "the deleted route is rejected", func() bool {
		if got := send(t, request{host: "kept.test"}); got.app != "kept" {
			t.Errorf("the other route: %+v", got)
		}
		return send(t, request{host: "deleted.test"}).String() == rejected
	})
	expect(t, map[request]string{{host: "deleted.test"}: rejected, {host: "kept.test"}: "kept"})
}

// TestInterceptorShutdown replaces the interceptor while a request waits for its response and another one for its app,
// as a rolling update does. Both are served, and so are new requests.
func TestInterceptorShutdown(t *testing.T) {
	busy, zero := shared.readyApp(t, "shutdown"), shared.newApp(t, "shutdown-zero")
	shared.addRoute(t, "shutdown", "rules: [{hosts: [shutdown.test]}]")
	shared.addRoute(t, "shutdown-zero", "rules: [{hosts: [zero.shutdown.test]}]")
	held := begin(t, request{host: "shutdown.test", path: "/held"})
	await.Receive(t, "the request", busy.arrived)
	queued := begin(t, request{host: "zero.shutdown.test"})
	shared.awaitQueued(t, 1)

	previous := shared.interceptor
	next, err := shared.StartInterceptor(context.WithoutCancel(t.Context()), 1)
	if err != nil {
		t.Fatal(err)
	}
	shared.interceptor = next
	if err := previous.Terminate(); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the previous interceptor has ended", func() bool {
		if got := send(t, request{host: "shutdown.test"}); got.app != "shutdown" {
			t.Errorf("a request during the shutdown: %+v", got)
		}
		select {
		case <-previous.Ended():
			return true
		default:
			return false
		}
	})

	if len(held) > 0 {
		t.Errorf("the request ended before its response: %+v", <-held)
	}
	close(busy.release)
	if got := await.Receive(t, "the response", held); got.app != "shutdown" {
		t.Errorf("the request that waited for its response: %+v", got)
	}
	shared.awaitQueued(t, 1) // at the other interceptor
	shared.setReady(t, zero, true)
	if got := await.Receive(t, "the response", queued); got.app != "shutdown-zero" {
		t.Errorf("the request that was queued: %+v", got)
	}
	expect(t, map[request]string{{host: "shutdown.test"}: "shutdown"})
}
