package attacks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/rawgrpc"
	"github.com/kedify/argo-rollouts-plugin/test/kit/traffic"
)

const (
	// atOnce is how many connections are opened at a time.
	atOnce = 16
	// evilConnections is how many connections each Pod opens, and maxConnections how many an address may have to a port
	// (docs/explanation/threat-model.md).
	evilConnections, maxConnections = 700, 512
)

// connectionAttacks open many connections.
func connectionAttacks() []attack {
	return []attack{
		{"8400 connections of a fleet", func(ctx context.Context, t *testing.T, s *scene) func() {
			t.Helper()
			return s.connect(ctx, t, evilConnections*evilPods, func(i int) netip.Addr { return evilAddress(i % evilPods) }, discoveryPort)
		}},
		{"8400 connections of a fleet for metrics", func(ctx context.Context, t *testing.T, s *scene) func() {
			t.Helper()
			return s.connect(ctx, t, evilConnections*evilPods, func(i int) netip.Addr { return evilAddress(i % evilPods) }, metricsPort)
		}},
		{"3000 connections of Pods of no fleet", func(ctx context.Context, t *testing.T, s *scene) func() {
			t.Helper()
			return s.connect(ctx, t, 3000, func(i int) netip.Addr { return unknownAddress(i % unknownPods) }, discoveryPort)
		}},
		{"connections and requests at the other ports", useOtherPorts},
	}
}

// connect opens connections that send nothing, only the beginning of HTTP/2, unfinished headers, or unfinished messages
// on several streams.
func (s *scene) connect(
	ctx context.Context, t *testing.T, count int, from func(i int) netip.Addr, port uint16,
) func() {
	t.Helper()
	var opened atomic.Int64
	var sending sync.WaitGroup
	t.Cleanup(sending.Wait)
	group := new(errgroup.Group)
	group.SetLimit(atOnce)
	for i := range count {
		group.Go(func() error {
			conn, err := rawgrpc.Dial(ctx, from(i), s.at(port))
			if err != nil {
				return err
			}
			context.AfterFunc(ctx, func() { _ = conn.Close() })
			opened.Add(1)
			switch i / evilPods % 4 {
			case 0:
			case 1:
				_ = conn.StartSilently() // The server may close the connection, here and below.
			case 2:
				_ = conn.StartSilently()
				_ = conn.UnfinishedHeaders(1, discoverPath, "x-large", strings.Repeat("x", 8<<10))
				_ = conn.Continue(1, make([]byte, 8<<10))
			case 3:
				_ = conn.Start()
				sending.Go(func() { sendOnStreams(conn) })
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	s.checkConnections(t, opened.Load(), port) //nolint:contextcheck // it uses the context of the test
	return nil
}

// checkConnections checks that no address has more connections to a port than it may have.
func (s *scene) checkConnections(t *testing.T, opened int64, port uint16) {
	t.Helper()
	most := 0
	await.Described(t, "connections above the limit are closed", func() bool {
		most = 0
		for _, count := range s.connections(t, port) {
			most = max(most, count)
		}
		return most <= maxConnections
	}, func() string { return fmt.Sprint(most, " of one address") })
	t.Logf("%d connections were opened, at most %d of one address are open", opened, most)
}

// connections counts the established connections to a port of the interceptor by the address of the client, from
// /proc/net/tcp (proc_pid_net(5)).
func (s *scene) connections(t *testing.T, port uint16) map[string]int {
	t.Helper()
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	address := s.replica.Address.As4()
	local := fmt.Sprintf("%02X%02X%02X%02X:%04X", address[3], address[2], address[1], address[0], port)
	counts := map[string]int{}
	for line := range strings.Lines(string(table)) {
		const isLocal, isRemote, isState, established = 1, 2, 3, "01"
		fields := strings.Fields(line)
		if fields[isLocal] == local && fields[isState] == established {
			client, _, _ := strings.Cut(fields[isRemote], ":")
			counts[client]++
		}
	}
	return counts
}

// sendOnStreams sends as much as the windows allow on streams of each method, without the end of a message.
func sendOnStreams(conn *rawgrpc.Conn) {
	const window = 64 << 10
	id := uint32(1)
	for _, path := range []string{discoverPath, checkPath, watchPath, metricsPath} {
		for _, size := range []int{16 << 20, 4 << 20, 1 << 10} {
			message := append(rawgrpc.Prefix(size), make([]byte, min(size-1, window))...)
			if err := conn.Headers(id, path, translate.ClusterKey, "evil/evil-000/evil-000"); err != nil {
				return
			}
			if err := conn.Send(id, message, frame, nil); err != nil && conn.IsOver() {
				return
			}
			id += 2
		}
	}
}

// useOtherPorts opens connections to the ports without authentication, and sends requests to them.
func useOtherPorts(ctx context.Context, t *testing.T, s *scene) func() {
	t.Helper()
	group := new(errgroup.Group)
	group.SetLimit(atOnce)
	for i := range evilPods {
		for _, port := range []uint16{adminPort, healthPort, prometheusPort} {
			for range 100 {
				group.Go(func() error {
					dialer := &net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(evilAddress(i), 0))}
					conn, err := dialer.DialContext(ctx, "tcp", s.at(port))
					if err != nil {
						return err
					}
					context.AfterFunc(ctx, func() { _ = conn.Close() })
					_, _ = fmt.Fprint(conn, "GET /metrics HTTP/1.1\r\nX-Slow: ") // The server may close it.
					return nil
				})
			}
		}
	}
	for range 100 {
		for _, url := range []string{s.at(adminPort) + "/queue", s.at(prometheusPort) + "/metrics"} {
			group.Go(func() error {
				answer, err := traffic.Get(ctx, "http://"+url, "", nil)
				// Few pages with metrics are written at the same time.
				isBusy := err == nil && answer.Status == http.StatusServiceUnavailable && strings.HasSuffix(url, "/metrics")
				if err == nil && answer.Status != http.StatusOK && !isBusy {
					err = fmt.Errorf("%w: %s: %d", errAnswer, url, answer.Status)
				}
				return err
			})
		}
	}
	if err := group.Wait(); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	return nil
}
