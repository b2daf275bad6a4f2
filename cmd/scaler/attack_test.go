//go:build !race

// The race detector needs several times the memory that the attacks are compared with. make test-outside runs them.

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/kedify/argo-rollouts-plugin/internal/scaler/externalscaler"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	procfs "github.com/kedify/argo-rollouts-plugin/test/kit/process"
	"github.com/kedify/argo-rollouts-plugin/test/kit/rawgrpc"
	"github.com/kedify/argo-rollouts-plugin/test/kit/shipped"
)

const (
	// kedaStreams is the number of streams of KEDA during the attacks, on one connection.
	kedaStreams = 10_000
	// frame is the length of the largest frames.
	frame = 16 << 10

	streamPath  = externalscaler.ExternalScaler_StreamIsActive_FullMethodName
	metricsPath = externalscaler.ExternalScaler_GetMetrics_FullMethodName
)

// attackedScaler is a scaler as a process with the limits of its manifest.
type attackedScaler struct {
	address string
	memory  procfs.Folder
	limit   int
}

// startAttacked starts a scaler that ends with the test.
func startAttacked(t *testing.T) *attackedScaler {
	t.Helper()
	limit, variables, err := shipped.Settings("scaler/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "/proc/self/exe")
	command.Env = append(append(os.Environ(), variables...), attackedVariable+"=true", "GOMAXPROCS=1")
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	logs, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	s := &attackedScaler{address: opened(t, logs)("grpc"), limit: limit}
	t.Cleanup(func() {
		_ = input.Close()
		_ = command.Process.Kill()
		_ = command.Wait() // It was killed.
	})
	if s.memory, err = procfs.Find(command.Process.Pid); err != nil {
		t.Fatal(err)
	}
	return s
}

// evil returns the address of an attacker.
func evil(i int) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 1, byte(1 + i%250)}) }

// dialEvil opens a connection of an attacker that ends with the context. It returns nil if the scaler closes it.
func (s *attackedScaler) dialEvil(ctx context.Context, t *testing.T, i int) *rawgrpc.Conn {
	t.Helper()
	conn, err := rawgrpc.Dial(ctx, evil(i), s.address)
	if err != nil {
		t.Fatal(err)
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	if err := conn.Start(); err != nil {
		return nil
	}
	return conn
}

// encodedReference returns an encoded message for a stream.
func encodedReference(t *testing.T) []byte {
	t.Helper()
	text, err := proto.Marshal(&externalscaler.ScaledObjectRef{Namespace: "evil", Name: "evil"})
	if err != nil {
		t.Fatal(err)
	}
	return rawgrpc.Message(text)
}

// keda opens the streams of KEDA, and returns its client. It has another address than the attackers.
func (s *attackedScaler) keda(t *testing.T) externalscaler.ExternalScalerClient {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}}
	connection, err := grpc.NewClient("passthrough:///"+s.address,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	client := externalscaler.NewExternalScalerClient(connection)
	var last grpc.ServerStreamingClient[externalscaler.IsActiveResponse]
	for i := range kedaStreams {
		last, err = client.StreamIsActive(t.Context(), &externalscaler.ScaledObjectRef{
			Namespace: "shop", Name: fmt.Sprintf("web-%d", i), ScalerMetadata: map[string]string{"hosts": "www.example.com"},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := last.Recv(); err != nil {
		t.Fatal(err)
	}
	return client
}

// poller makes KEDA's calls, one after the other.
type poller struct {
	cancel         context.CancelFunc
	done           chan struct{}
	served, failed atomic.Int64
	last           error // the caller reads it after done is closed
}

// poll begins to make KEDA's calls.
func poll(t *testing.T, client externalscaler.ExternalScalerClient) *poller {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	p := &poller{cancel: cancel, done: make(chan struct{})}
	ref := &externalscaler.ScaledObjectRef{Namespace: "shop", Name: "web", ScalerMetadata: map[string]string{
		"hosts": strings.Repeat("www.example.com,", 200),
	}}
	go func() {
		defer close(p.done)
		for ctx.Err() == nil {
			_, errActive := client.IsActive(ctx, ref)
			_, errMetrics := client.GetMetrics(ctx, &externalscaler.GetMetricsRequest{
				ScaledObjectRef: ref, MetricName: "http-request-rate",
			})
			if err := errors.Join(errActive, errMetrics); err == nil {
				p.served.Add(1)
			} else if ctx.Err() == nil {
				p.failed.Add(1)
				p.last = err
			}
		}
	}()
	return p
}

// settle waits until a counter stays the same for a while: the attackers cannot do more.
func settle(t *testing.T, counter *atomic.Int64) {
	t.Helper()
	last, since := int64(-1), time.Now()
	await.True(t, "the attackers have sent what they can", func() bool {
		if now := counter.Load(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 2*time.Second
	})
}

// each opens connections of attackers, calls use for each in parallel, and waits until nothing changes.
func (s *attackedScaler) each(
	ctx context.Context, t *testing.T, count int, use func(conn *rawgrpc.Conn, progress func()) error,
) {
	t.Helper()
	var counter atomic.Int64
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	for i := range count {
		if conn := s.dialEvil(ctx, t, i); conn != nil {
			running.Go(func() { _ = use(conn, func() { counter.Add(1) }) }) // The scaler may end it.
		}
	}
	settle(t, &counter) //nolint:contextcheck // it uses the context of the test
}

// scalerAttack is an attack that ends with the context.
type scalerAttack struct {
	name  string
	start func(ctx context.Context, t *testing.T, s *attackedScaler)
}

// largeMessages sends messages of a size on as many connections, without their last byte, in frames of a size.
func largeMessages(connections, size, frameSize int) func(ctx context.Context, t *testing.T, s *attackedScaler) {
	return func(ctx context.Context, t *testing.T, s *attackedScaler) {
		t.Helper()
		message := append(rawgrpc.Prefix(size), make([]byte, size-1)...)
		s.each(ctx, t, connections, func(conn *rawgrpc.Conn, progress func()) error {
			for stream := range 16 {
				id := uint32(1 + 2*stream)
				if err := conn.Headers(id, metricsPath); err != nil {
					return err
				}
				if err := conn.Send(id, message, frameSize, progress); err != nil && conn.IsOver() {
					return err
				}
			}
			return nil
		})
	}
}

// oneByteFrames sends messages of 60 KiB in frames of one byte.
func oneByteFrames(ctx context.Context, t *testing.T, s *attackedScaler) {
	t.Helper()
	message := append(rawgrpc.Prefix(60<<10), make([]byte, 60<<10-1)...)
	s.each(ctx, t, 16, func(conn *rawgrpc.Conn, progress func()) error {
		return errors.Join(conn.Headers(1, metricsPath), conn.Send(1, message, 1, progress))
	})
}

// emptyFields sends messages of empty fields of a number.
func emptyFields(number protowire.Number) func(ctx context.Context, t *testing.T, s *attackedScaler) {
	return func(ctx context.Context, t *testing.T, s *attackedScaler) {
		t.Helper()
		var text []byte
		for len(text) < 1<<20-10 {
			text = protowire.AppendBytes(protowire.AppendTag(text, number, protowire.BytesType), nil)
		}
		s.each(ctx, t, 17, func(conn *rawgrpc.Conn, progress func()) error {
			for stream := range 16 {
				id := uint32(1 + 2*stream)
				if err := conn.Headers(id, streamPath); err != nil {
					return err
				}
				if err := conn.Send(id, rawgrpc.Message(text), frame, progress); err != nil && conn.IsOver() {
					return err
				}
				_ = conn.End(id) // The server may have ended the stream.
			}
			return nil
		})
	}
}

// manyStreams opens as many streams as the scaler accepts, with headers, and reads no response.
func manyStreams(
	connections, streams int, message []byte, fields ...string,
) func(context.Context, *testing.T, *attackedScaler) {
	return func(ctx context.Context, t *testing.T, s *attackedScaler) {
		t.Helper()
		if message == nil {
			message = encodedReference(t)
		}
		s.each(ctx, t, connections, func(conn *rawgrpc.Conn, progress func()) error {
			for i := range streams {
				id := uint32(1 + 2*i)
				if err := conn.Headers(id, streamPath, fields...); err != nil {
					return err
				}
				if err := conn.Send(id, message, frame, nil); err != nil && conn.IsOver() {
					return err
				}
				_ = conn.End(id) // The server may have ended the stream.
				progress()
			}
			return nil
		})
	}
}

// scalerAttacks are the attacks.
func scalerAttacks() []scalerAttack {
	return []scalerAttack{
		{"17 times 16 messages of 16 MiB", largeMessages(17, 16<<20, frame)},
		{"17 times 16 messages of 1 MiB", largeMessages(17, 1<<20, frame)},
		{"messages in frames of one byte", oneByteFrames},
		{"names of no character", emptyFields(2)},
		{"values that nothing uses", emptyFields(8)},
		{"3000 connections", func(ctx context.Context, t *testing.T, s *attackedScaler) {
			t.Helper()
			s.each(ctx, t, 3000, func(conn *rawgrpc.Conn, progress func()) error {
				progress()
				return conn.UnfinishedHeaders(1, streamPath, "x-large", strings.Repeat("x", 8<<10))
			})
		}},
		{"10 times 20,000 streams", manyStreams(10, 20_000, nil)},
		{"200 times 200 streams", manyStreams(200, 200, nil)},
		{"streams with large headers", manyStreams(10, 2000, nil, "x-large", strings.Repeat("x", 12<<10))},
		{"streams with unfinished messages", manyStreams(10, 200,
			append(rawgrpc.Prefix(64<<10), make([]byte, 60<<10)...))},
	}
}

// TestAttacks attacks a scaler with 10,000 streams of KEDA. Its memory stays below the limit of config/scaler, and
// KEDA's calls are answered.
func TestAttacks(t *testing.T) {
	for _, attack := range scalerAttacks() {
		t.Run(attack.name, func(t *testing.T) {
			s := startAttacked(t)
			client := s.keda(t)
			before, err := s.memory.Peak()
			if err != nil {
				t.Fatal(err)
			}
			calls := poll(t, client)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			attack.start(ctx, t, s)
			await.True(t, "KEDA's calls are answered", func() bool {
				return calls.served.Load() > 10 || calls.failed.Load() > 0
			})
			calls.cancel()
			<-calls.done
			peak, err := s.memory.Peak()
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d MiB before, peak %d MiB of %d MiB; %d polls answered, %d failed", before>>20, peak>>20, s.limit>>20,
				calls.served.Load(), calls.failed.Load())
			if peak > s.limit {
				t.Errorf("the scaler used %d MiB, and its limit is %d MiB", peak>>20, s.limit>>20)
			}
			if calls.failed.Load() > 0 {
				t.Errorf("%d polls failed: %v", calls.failed.Load(), calls.last)
			}
		})
	}
}
