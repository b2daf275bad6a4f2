package xds

import (
	"slices"
	"testing"
	"time"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

func TestReturningInStateOfTheWorld(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a cluster that left meanwhile stays until the routes have changed, and for the grace": `
			> world a listener:web web/2>a
			> cluster returns
			< wake 1s
			> endpoint returns a old
			< endpoint 1: a/1
			< wake 1s
			> listener returns
			< listener 2: web/1
			< wake 1s
			> scope returns
			< wake 1s
			> endpoint ack 1
			< scope 3: web/2
			< wake 1s
			> listener ack 2
			< wake 1s
			> scope ack 3
			< wake 5s
			> after 5s
			< cluster 4: a/1
			< endpoint 5: a/1
			> endpoint ack 5
			> cluster ack 4`,
		"without such a cluster the list goes out at once": `
			> world a b listener:web web/2>a,b
			> cluster returns
			< wake 1s
			> endpoint returns a
			< endpoint 1: a/1
			< wake 1s
			> scope returns
			< cluster 2: a/1 b/1
			< endpoint 3: a/1
			< wake 5s
			> endpoint ack 1
			< wake 5s
			> endpoint ack 3
			< wake 5s
			> endpoint = a b
			< endpoint 4: b/1
			< wake 5s
			> endpoint ack 4
			< wake 5s
			> cluster ack 2
			< scope 5: web/2`,
		"routes that need a new cluster can't go first": `
			> world a b listener:web web/2>a,b
			> cluster returns
			< wake 1s
			> endpoint returns a old
			< endpoint 1: a/1
			< wake 1s
			> scope returns
			< cluster 2: a/1 b/1
			< endpoint 3: a/1
			< wake 5s`,
		"a proxy that doesn't ACK its routes isn't waited for longer than a second": `
			> world a listener:web web/2>a
			> cluster returns
			< wake 1s
			> endpoint returns a old
			< endpoint 1: a/1
			< wake 1s
			> scope returns
			< wake 1s
			> endpoint ack 1
			< scope 2: web/2
			< wake 1s
			> after 1s
			< cluster 3: a/1
			< endpoint 4: a/1`,
		"a proxy that asks for no routes isn't waited for longer than a second": `
			> world a listener:web web/2>a
			> cluster returns
			< wake 1s
			> listener returns
			< listener 1: web/1
			< wake 1s
			> after 1s
			< cluster 2: a/1`,
		"before the first world nothing is sent": `
			> cluster returns
			> endpoint returns a old
			> scope returns
			> world a listener:web web/2>a
			< endpoint 1: a/1
			< wake 1s`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runScript(t, ModeStateOfTheWorld, text)
		})
	}
}

// TestServerKeepsWhatAReturningProxyUses has a cluster leave while the
// proxy is away, in both forms of the protocol.
func TestServerKeepsWhatAReturningProxyUses(t *testing.T) {
	t.Parallel()
	for _, mode := range []kit.XDSMode{kit.XDSDelta, kit.XDSStateOfTheWorld} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			s := serve(t, Options{Grace: time.Millisecond})
			s.world("stable canary listener:web web/1>stable,canary")
			client := kit.NewXDSClient(t, s.conn, mode)
			client.WaitFor(s.settled)
			client.Disconnect()
			s.world("stable listener:web web/2>stable")
			before := len(client.State().Deliveries)
			client.Reconnect(s.conn)
			state := client.WaitFor(s.settled)
			s.await(s.acked(1, resourcev3.ClusterType, resourcev3.EndpointType, resourcev3.ListenerType, resourcev3.ScopedRouteType))
			if len(state.Broken) > 0 {
				t.Errorf("requests would have failed: %q", state.Broken)
			}
			order := []string{}
			for _, d := range state.Deliveries[before:] {
				if gone := slices.Contains(d.Removed, "canary") || mode == kit.XDSStateOfTheWorld; d.TypeURL == resourcev3.ScopedRouteType || d.TypeURL == resourcev3.ClusterType && gone {
					order = append(order, d.TypeURL)
				}
			}
			if want := []string{resourcev3.ScopedRouteType, resourcev3.ClusterType}; !slices.Equal(order, want) {
				t.Errorf("sent after the cut: %q, want %q", order, want)
			}
		})
	}
}
