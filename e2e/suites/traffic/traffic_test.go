package traffic

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/load"
)

const (
	// namespace is the namespace of the HTTP applications, grpcNamespace that of the gRPC ones.
	namespace, grpcNamespace = "traffic", "traffic-grpc"
	// rate is the number of requests per second to web and to sticky, in addition to those of the special clients.
	rate = 30
	// lateByte is the time to the first byte of a slow response, lateMessage to the first message of a gRPC stream.
	lateByte, lateMessage = 45 * time.Second, 40 * time.Second
	// long is the duration of the slowest responses.
	long = 10 * time.Minute
	// talkTime is the duration of a WebSocket within a state.
	talkTime = 30 * time.Second
	// slowAtOnce is the number of slow responses at a time: some of them come from the canary.
	slowAtOnce = 10
	// settle is how long requests continue after a change before a state's own requests begin.
	settle = 3 * time.Second
	// often and seldom are the intervals of the special clients.
	often, seldom = 200 * time.Millisecond, time.Second
)

// TestTraffic plays the states of the Ingresses under load, then rollbacks and sticky canaries. The slowest responses of
// all states last until its end.
func TestTraffic(t *testing.T) {
	s := launch(t)
	defer func() {
		t.Logf("\n%s", s.table())
		if t.Failed() {
			t.Logf("failures:\n%s", s.failures())
		}
	}()
	sockets := s.playStates(t)
	s.enter(t, after)
	s.compareRollbacks(t)
	s.playStickyCanaries(t)
	sockets.check(t)
	s.slow.Wait()
	s.check(t)
	s.checkSent(t, s.awake, before, unwired)
	s.checkSent(t, sockets.row, wired, canary)
}

// playStates plays the states of the Ingresses and Rollouts.
func (s *suite) playStates(t *testing.T) (sockets *openSockets) {
	t.Helper()
	s.enter(t, before)
	stop := s.startClients(t)
	web := place{address: s.ingress, host: webHost}
	s.startLong(before, web)
	s.startAwake()
	s.hold(t, before)

	s.enter(t, wired)
	s.wire(t)
	s.startLong(wired, web)
	sockets = s.startSockets(t)
	s.hold(t, wired)

	s.enter(t, canary)
	s.startCanaries(t)
	s.startLong(canary, s.canaryPlace(t, webHost))
	sockets.startCanary(t)
	s.hold(t, canary)

	s.enter(t, aborted)
	s.abort(t)

	s.enter(t, unwired)
	s.unwire(t)
	s.startLong(unwired, web)
	s.startAwake()
	s.hold(t, unwired)
	stop()
	return sockets
}

// startClients starts the clients that send requests regularly in every state. stop ends them.
func (s *suite) startClients(t *testing.T) (stop func()) {
	t.Helper()
	web, proxies := place{address: s.ingress, host: webHost}, place{address: s.proxies, host: webHost}
	const lines = "1 blue\n2 blue\n3 blue\n"
	const slow = "/slow?messages=3&every=10ms"
	http10 := func(p place, path, want string) func(context.Context) error {
		return func(ctx context.Context) error { return p.http10(ctx, path, want) }
	}
	stops := []func(){s.startLoad(t, webHost), s.startLoad(t, stickyHost)}
	for _, client := range []struct {
		name  string
		every time.Duration
		send  func(context.Context) error
	}{
		{"HttpClient 5.4, Upgrade: TLS/1.2, two requests", often, web.offerTLS},
		{"HttpClient 5.4, directly to kedify-proxy", often, proxies.offerTLS},
		{"HTTP/1.0", often, http10(web, "/color", `"blue"`)},
		{"HTTP/1.0, keep-alive, two requests", often, web.http10KeepAlive},
		{"HTTP/1.0, a response of unknown length", seldom, http10(web, slow, lines)},
		{"HTTP/1.0, directly to kedify-proxy", often, http10(proxies, "/color", `"blue"`)},
		{"HTTP/1.0, keep-alive, directly to kedify-proxy", often, proxies.http10KeepAlive},
		{"HTTP/1.0, unknown length, directly to kedify-proxy", seldom, http10(proxies, slow, lines)},
		{"WebSocket with two messages", seldom, web.shortWebSocket},
		{"gRPC, unary", often, s.greeter.call},
		{"gRPC, unary, a port with the name grpc", often, s.named.call},
		{"gRPC, unary, Kedify's sample, an Ingress of class nginx", often, s.responder.call},
	} {
		r := s.row(client.name)
		s.everywhere = append(s.everywhere, r)
		stops = append(stops, r.repeat(t.Context(), client.every, client.send))
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// startLoad starts the load on a host. stop ends it and records its results.
func (s *suite) startLoad(t *testing.T, host string) (stop func()) {
	t.Helper()
	client, err := load.Start(t.Context(), s.loadOf(host, rate))
	if err != nil {
		t.Fatal(err)
	}
	r := s.row("HTTP/1.1 and HTTP/2, " + host)
	s.everywhere = append(s.everywhere, r)
	return func() {
		totals, _ := client.Stop()
		results := client.Results()
		for _, result := range results {
			r.add(result.Due, result.Err)
		}
		t.Logf("%s: %d requests, sent %.2f s late at worst", host, totals.Ended, totals.Lag.Seconds())
		if host == webHost {
			s.logShares(t, results)
		}
	}
}

// logShares logs which share of the responses came from the canary in each state, which must be none without a canary.
func (s *suite) logShares(t *testing.T, results []load.Result) {
	t.Helper()
	all, yellow := map[state]int{}, map[state]int{}
	for _, result := range results {
		at := s.stateAt(result.Due)
		all[at]++
		if result.Color == "yellow" {
			yellow[at]++
		}
	}
	for _, at := range []state{before, wired, canary, aborted, unwired} {
		t.Logf("%s, %s: %d of %d responses by the canary", webHost, at, yellow[at], all[at])
	}
	if yellow[canary] == 0 || yellow[before]+yellow[wired]+yellow[unwired] > 0 {
		t.Errorf("the canary sent these numbers of responses: %v", yellow)
	}
}

// startLong starts the slowest responses: one whose first byte is late, one with a line each second, and a WebSocket.
// Those that begin in the canary are answered by it, and outlive it: its Pod continues to serve after the abort. They
// end before s.slow.Wait returns.
func (s *suite) startLong(in state, web place) {
	for _, response := range []struct {
		name string
		send func(context.Context) error
	}{
		{"first byte after", func(ctx context.Context) error { return web.slowly(ctx, long, 1) }},
		{"a line each second for", func(ctx context.Context) error { return web.slowly(ctx, 0, int(long.Seconds())) }},
		{"WebSocket for", func(ctx context.Context) error { return web.talk(ctx, time.Second, long) }},
	} {
		r := s.row(fmt.Sprintf("%s %s, begun %s", response.name, long, in))
		s.slow.Go(func() { r.once(s.ctx, response.send) })
	}
}

// hold sends the requests of a state that take long, and returns when all of them have ended.
func (s *suite) hold(t *testing.T, in state) {
	t.Helper()
	//testbounds:allow requests go on for a while after the change
	<-time.After(settle)
	s.awaitAffinity(t, in)
	var running sync.WaitGroup
	web := place{address: s.ingress, host: webHost}
	for _, r := range s.ab.runs {
		running.Go(func() { s.ab.run(s.ctx, r) })
	}
	for range slowAtOnce {
		running.Go(func() {
			s.lateByte.once(s.ctx, func(ctx context.Context) error { return web.slowly(ctx, lateByte, 1) })
		})
		running.Go(func() { s.lateMessage.once(s.ctx, s.greeter.stream) })
	}
	for _, jar := range s.jars {
		running.Go(func() {
			s.affinity.once(s.ctx, func(ctx context.Context) error { return s.keepPod(ctx, jar) })
		})
	}
	running.Go(func() {
		s.openSocket.once(s.ctx, func(ctx context.Context) error { return web.talk(ctx, time.Second, talkTime) })
	})
	running.Wait()
}

// check fails the test if a request failed, or if a kind of client has sent none in a state.
func (s *suite) check(t *testing.T) {
	t.Helper()
	s.meter.check(t)
	t.Logf("the machine stalled for %s at most", s.stalls.Largest(s.began[before], time.Now()))
	for _, r := range s.everywhere {
		s.checkSent(t, r, before, wired, canary, aborted, unwired)
	}
	held := []*row{s.lateByte, s.lateMessage, s.affinity, s.openSocket}
	for _, r := range s.ab.runs {
		held = append(held, r.row)
	}
	for _, r := range held {
		s.checkSent(t, r, before, wired, canary, unwired)
	}
}
