package xds

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds/session"
	"github.com/kedify/argo-rollouts-plugin/internal/server/grpcserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyresources"
	"github.com/kedify/argo-rollouts-plugin/test/kit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// testServer is a server with a real gRPC connection in memory.
type testServer struct {
	*Server
	tb   testing.TB
	conn *grpc.ClientConn

	mu        sync.Mutex
	published map[string][]string                       // names of what is published, by type URL
	seen      map[uint64]map[string]map[string]struct{} // names that were on a stream, by its number and type URL
}

// testFleet is the fleet of all proxies of a testServer.
const testFleet = "apps"

func serve(tb testing.TB, options Options) *testServer {
	tb.Helper()
	if options.Grace == 0 {
		options.Grace = DefaultGrace
	}
	s := &testServer{Server: NewServer(options), tb: tb, seen: map[uint64]map[string]map[string]struct{}{}}
	s.SetMembers(Members{Fleets: map[netip.Addr][]string{{}: {testFleet}}}) // What is in memory has no address.
	listener := bufconn.Listen(1 << 16)
	server := grpcserver.New(grpcserver.Options{})
	s.Register(server)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///memory",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(
			func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) },
		))
	if err != nil {
		tb.Fatal(err)
	}
	s.conn = conn
	tb.Cleanup(func() {
		if err := conn.Close(); err != nil {
			tb.Errorf("close connection: %v", err)
		}
		s.Close()
		server.GracefulStop()
		if err := <-done; err != nil {
			tb.Errorf("serve: %v", err)
		}
	})
	return s
}

// publishItems publishes resources in the notation of envoyresources.Parse.
func (s *testServer) publishItems(items string) {
	s.tb.Helper()
	if err := s.publish(envoyresources.Parse(s.tb, items)); err != nil {
		s.tb.Fatal(err)
	}
}

// publish publishes resources and records their names.
func (s *testServer) publish(desired envoyresources.Resources) error {
	if err := s.Publish(testFleet, desired); err != nil {
		return err
	}
	names := map[string][]string{}
	for typeURL, resources := range desired {
		names[typeURL] = slices.Collect(maps.Keys(resources))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.published = names
	return nil
}

// await waits until the streams satisfy the condition.
func (s *testServer) await(condition func([]StreamState) bool) {
	s.tb.Helper()
	await.Described(s.tb, "the state of the streams", func() bool { return s.holds(condition) }, func() string {
		return fmt.Sprintf("there are %d streams", len(s.sortedStreams()))
	})
}

// holds evaluates the condition with all streams.
func (s *testServer) holds(condition func([]StreamState) bool) bool {
	var states []StreamState
	for _, st := range s.sortedStreams() {
		states = append(states, StreamState{stream: st})
	}
	return condition(states)
}

// versions returns the versions of the published resources of a type.
func (s *testServer) versions(typeURL string) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	version, versions := s.Versions(), map[string]string{}
	for _, name := range s.published[typeURL] {
		versions[name] = version(testFleet, typeURL, name)
	}
	return versions
}

// acknowledged returns the versions of a type that the proxy of a stream has ACKed.
func (s *testServer) acknowledged(state StreamState, typeURL string) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen[state.Number()]
	if seen == nil {
		seen = map[string]map[string]struct{}{}
		s.seen[state.Number()] = seen
	}
	for ofType, names := range state.stream.poll().changed {
		if seen[ofType] == nil {
			seen[ofType] = map[string]struct{}{}
		}
		for name := range names {
			seen[ofType][name] = struct{}{}
		}
	}
	acked := map[string]string{}
	for name := range seen[typeURL] {
		if version := state.Resource(typeURL, name).Acked; version != "" {
			acked[name] = version
		}
	}
	return acked
}

// isSynced is a condition for WaitFor: the client has exactly what is published.
func (s *testServer) isSynced(state kit.XDSState) bool {
	for k := range session.Kind(session.KindCount) {
		want, got := s.versions(k.TypeURL()), state.Versions[k.TypeURL()]
		if len(want) != len(got) {
			return false
		}
		for name, version := range want {
			// In state of the world there is one version for a response.
			if held, has := got[name]; !has || state.Mode == kit.XDSDelta && held != version {
				return false
			}
		}
	}
	return len(state.Warming) == 0
}

// rejected returns the kinds and names of the rejected resources on a stream.
func (v StreamState) rejected() []string {
	v.stream.mu.Lock()
	defer v.stream.mu.Unlock()
	var names []string
	for k := range session.Kind(session.KindCount) {
		for _, name := range v.stream.session.Rejected(k) {
			names = append(names, k.String()+" "+name)
		}
	}
	return names
}

// acked is a condition for await: every stream has ACKed exactly the published resources of these types.
func (s *testServer) acked(streams int, typeURLs ...string) func([]StreamState) bool {
	return func(states []StreamState) bool {
		if len(states) != streams {
			return false
		}
		for _, state := range states {
			for _, typeURL := range typeURLs {
				if !cmp.Equal(s.versions(typeURL), s.acknowledged(state, typeURL)) {
					return false
				}
			}
		}
		return true
	}
}
