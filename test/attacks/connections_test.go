package attacks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/test/kit/rawgrpc"
	"github.com/kedify/argo-rollouts-plugin/test/kit/traffic"
)

// atOnce is how many connections are opened at a time.
const atOnce = 16

// connectionAttacks open many connections.
func connectionAttacks() []attack {
	return []attack{
		{"3072 connections of a fleet", func(ctx context.Context, t *testing.T, s *scene) func() {
			t.Helper()
			return s.connect(ctx, t, 256*evilPods, func(i int) netip.Addr { return evilAddress(i % evilPods) }, discoveryPort)
		}},
		{"3072 connections of a fleet for metrics", func(ctx context.Context, t *testing.T, s *scene) func() {
			t.Helper()
			return s.connect(ctx, t, 256*evilPods, func(i int) netip.Addr { return evilAddress(i % evilPods) }, metricsPort)
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
	t.Logf("%d connections were opened", opened.Load())
	return nil
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
				if err == nil && answer.Status != http.StatusOK {
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
