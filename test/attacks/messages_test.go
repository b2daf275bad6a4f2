package attacks

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/rawgrpc"
)

const (
	// largest is the length of the largest messages of a discovery stream, and largestCall that of a call.
	largest, largestCall = 16 << 20, 4 << 20
	// frame is the length of the largest frames.
	frame = 16 << 10
)

// messageAttacks send and request as much as possible.
func messageAttacks() []attack {
	return []attack{
		{"17 messages of 16 MiB without their last bytes", sendUnfinished},
		{"17 messages of 16 MiB with names of no character", func(ctx context.Context, t *testing.T, s *scene) func() {
			t.Helper()
			return s.sendNames(ctx, t, 3)
		}},
		{"17 messages of 16 MiB with values that nothing uses", func(ctx context.Context, t *testing.T, s *scene) func() {
			t.Helper()
			return s.sendNames(ctx, t, 8)
		}},
		{"messages in frames of one byte", sendSmallFrames},
		{"calls of 4 MiB without their last bytes", sendUnfinishedCalls},
		{"names that do not exist", subscribeToNothing},
		{"responses that nobody reads", readNothing},
		{"more calls than may wait", fillTheQueue},
		{"metrics of 100,000 clusters from each Pod", reportClusters},
	}
}

// open opens connections of the attackers' Pods, one Pod after the other, with a stream for a method each.
func (s *scene) open(ctx context.Context, t *testing.T, count int, path string, fields ...string) []*rawgrpc.Conn {
	t.Helper()
	conns := make([]*rawgrpc.Conn, 0, count)
	for i := range count {
		conn := s.dial(ctx, t, evilAddress(i%evilPods), discoveryPort)
		if err := errors.Join(conn.Start(), conn.Headers(1, path, fields...)); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	return conns
}

// settle waits until a number of senders cannot send more, or have sent everything.
func settle(t *testing.T, sent *atomic.Int64) {
	t.Helper()
	last, since := int64(-1), time.Now()
	await.True(t, "the attackers have sent what they can", func() bool {
		if now := sent.Load(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 2*time.Second
	})
}

// sendAll sends on the first stream of each connection, as fast as possible, and returns when no more is accepted.
func sendAll(ctx context.Context, t *testing.T, conns []*rawgrpc.Conn, message []byte, size int) {
	t.Helper()
	var sent atomic.Int64
	var sending sync.WaitGroup
	context.AfterFunc(ctx, func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
	})
	t.Cleanup(sending.Wait)
	for _, conn := range conns {
		sending.Go(func() {
			_ = conn.Send(1, message, size, func() { sent.Add(1) }) // The server may end the stream.
		})
	}
	settle(t, &sent) //nolint:contextcheck // it uses the context of the test
}

func sendUnfinished(ctx context.Context, t *testing.T, s *scene) func() {
	t.Helper()
	message := append(rawgrpc.Prefix(largest), make([]byte, largest-1)...)
	sendAll(ctx, t, s.open(ctx, t, 17, discoverPath), message, frame)
	return nil
}

// sendNames sends messages of empty fields of a number.
func (s *scene) sendNames(ctx context.Context, t *testing.T, number protowire.Number) func() {
	t.Helper()
	message := protowire.AppendString(protowire.AppendTag(nil, 2, protowire.BytesType), resourcev3.EndpointType)
	for len(message) < largest-10 {
		message = protowire.AppendBytes(protowire.AppendTag(message, number, protowire.BytesType), nil)
	}
	sendAll(ctx, t, s.open(ctx, t, 17, discoverPath), rawgrpc.Message(message), frame)
	return nil
}

func sendSmallFrames(ctx context.Context, t *testing.T, s *scene) func() {
	t.Helper()
	const size = 256 << 10
	message := append(rawgrpc.Prefix(largest), make([]byte, size)...)
	sendAll(ctx, t, s.open(ctx, t, 4, discoverPath), message, 1)
	return nil
}

func sendUnfinishedCalls(ctx context.Context, t *testing.T, s *scene) func() {
	t.Helper()
	message := append(rawgrpc.Prefix(largestCall), make([]byte, largestCall-1)...)
	conns := s.open(ctx, t, 50*evilPods, checkPath, translate.ClusterKey, "evil/evil-000/evil-000")
	sendAll(ctx, t, conns, message, frame)
	return nil
}

// subscribeToNothing names 100,000 resources of each kind on four streams of each Pod.
func subscribeToNothing(ctx context.Context, t *testing.T, s *scene) func() {
	t.Helper()
	const count = 100_000
	for _, typeURL := range []string{
		resourcev3.EndpointType, resourcev3.ClusterType, resourcev3.ScopedRouteType, resourcev3.SecretType,
	} {
		request := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, InitialResourceVersions: map[string]string{}}
		for i := range count {
			name := fmt.Sprintf("nothing-%080d", i)
			request.ResourceNamesSubscribe = append(request.ResourceNamesSubscribe, name)
			if i < count/4 {
				request.InitialResourceVersions["x"+name] = "1"
			}
		}
		message, err := proto.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		sendAll(ctx, t, s.open(ctx, t, evilPods, discoverPath), rawgrpc.Message(message), frame)
	}
	return nil
}

// readNothing requests the whole configuration on four streams of each Pod, and does not read it.
func readNothing(ctx context.Context, t *testing.T, s *scene) func() {
	t.Helper()
	for _, conn := range s.open(ctx, t, 4*evilPods, discoverPath) {
		for _, typeURL := range []string{resourcev3.ClusterType, resourcev3.ListenerType, resourcev3.ScopedRouteType} {
			request, err := proto.Marshal(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL})
			if err != nil {
				t.Fatal(err)
			}
			if err := conn.Send(1, rawgrpc.Message(request), frame, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	return nil
}

// fillTheQueue makes 2000 calls of each Pod about requests to apps of the attackers.
func fillTheQueue(ctx context.Context, t *testing.T, s *scene) func() {
	t.Helper()
	const each, perConnection = 2000, 100
	for i := range evilPods {
		subscribe(t, s.discover(ctx, t, evilAddress(i)), resourcev3.ClusterType, "*")
	}
	var opening sync.WaitGroup
	var rejected atomic.Int64
	t.Cleanup(opening.Wait)
	for i := range evilPods {
		for range each / perConnection {
			conn := s.dial(ctx, t, evilAddress(i), discoveryPort)
			if err := conn.Start(); err != nil {
				t.Fatal(err)
			}
			opening.Go(func() { s.callOften(ctx, conn, i, perConnection, &rejected) })
		}
	}
	//nolint:contextcheck // that of the test
	await.True(t, "calls are rejected", func() bool { return rejected.Load() > 1000 })
	return func() {
		if answer, err := s.ask(ctx, t, evilAddress(0), "evil/evil-000/evil-000"); err != nil ||
			answer.GetDeniedResponse().GetBody() != "scaled to zero, and the limit of queued requests is reached\n" {
			t.Errorf("another call of the attackers: %v, %v", answer, err)
		}
	}
}

// callOften makes calls on a connection, and counts those that end at once.
func (s *scene) callOften(ctx context.Context, conn *rawgrpc.Conn, app, count int, rejected *atomic.Int64) {
	cluster := fmt.Sprintf("evil/evil-%03d/evil-%03d", app, app)
	var ending sync.WaitGroup
	for i := range count {
		id := uint32(2*i + 1)
		err := errors.Join(conn.Headers(id, checkPath, translate.ClusterKey, cluster), conn.Send(id, rawgrpc.Message(nil), frame, nil),
			conn.End(id))
		if err != nil {
			break
		}
		ending.Go(func() {
			if conn.Status(id); ctx.Err() == nil {
				rejected.Add(1)
			}
		})
	}
	ending.Wait()
}

// reportClusters reports requests to clusters with long names, which are not those of any object.
func reportClusters(ctx context.Context, t *testing.T, s *scene) func() {
	t.Helper()
	field := func(number protowire.Number, value []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
	}
	one := protowire.AppendFixed64(protowire.AppendTag(nil, 1, protowire.Fixed64Type), math.Float64bits(1))
	metric, message := field(4, field(3, one)), []byte(nil)
	for i := range 100_000 {
		name := field(1, fmt.Appendf(nil, "cluster.%0500d.upstream_rq_total", i))
		message = append(message, field(2, append(name, metric...))...)
	}
	conns := make([]*rawgrpc.Conn, 0, evilPods)
	for i := range evilPods {
		conn := s.dial(ctx, t, evilAddress(i), metricsPort)
		if err := errors.Join(conn.Start(), conn.Headers(1, metricsPath)); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	sendAll(ctx, t, conns, rawgrpc.Message(message), frame)
	return nil
}
