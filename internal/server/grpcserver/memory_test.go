package grpcserver_test

import (
	"errors"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/kedify/argo-rollouts-plugin/internal/server/grpcserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/rawgrpc"
)

// heap returns the bytes of the live heap.
func heap() int {
	runtime.GC()
	runtime.GC() // The second one frees the contents of sync.Pool.
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

// TestFramesOfOneByte sends a message of 128 KiB in frames of one byte, without its last byte. The frames take no memory
// of their own. With gRPC-Go's server the message takes 5 MiB, if the frames come one at a time.
func TestFramesOfOneByte(t *testing.T) {
	s := serve(t, grpcserver.Options{})
	conn := dial(t, s.address)
	if err := conn.Headers(1, path); err != nil {
		t.Fatal(err)
	}
	const size = 128 << 10
	if err := conn.Send(1, rawgrpc.Prefix(size), 5, nil); err != nil {
		t.Fatal(err)
	}
	data := make([]byte, size-1)
	before := heap()
	if err := conn.Send(1, data, 1, nil); err != nil {
		t.Fatal(err)
	}
	// The server has read all but a window.
	const window = 64 << 10
	if grown := heap() - before; grown > size+4*window {
		t.Errorf("the heap has grown by %d KiB for a message of %d KiB", grown>>10, size>>10)
	}
}

// TestResponsesTakeNoMemory has clients that do not read responses of 64 MiB.
func TestResponsesTakeNoMemory(t *testing.T) {
	s := serve(t, grpcserver.Options{})
	request, err := proto.Marshal(ofType("large"))
	if err != nil {
		t.Fatal(err)
	}
	const streams = 8
	before := heap()
	for range streams {
		conn := dial(t, s.address)
		if err := errors.Join(conn.Headers(1, path), conn.Send(1, rawgrpc.Message(request), 1<<14, nil)); err != nil {
			t.Fatal(err)
		}
	}
	await.True(t, "all responses are being sent", func() bool { return s.echo.sending.Load() == streams })
	grown := heap() - before
	t.Logf("the heap has grown by %d KiB for each response", grown>>10/streams)
	if grown > streams*4*largePart {
		t.Errorf("the heap has grown by %d KiB for %d responses of %d MiB", grown>>10, streams, largeParts*largePart>>20)
	}
}

// peak returns the largest heap while run runs, in bytes above that before. The collector runs often.
func peak(run func()) int {
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	before, done, most := heap(), make(chan struct{}), make(chan int)
	go func() {
		largest := 0
		ticks := time.NewTicker(5 * time.Millisecond)
		defer ticks.Stop()
		for {
			var stats runtime.MemStats
			runtime.ReadMemStats(&stats)
			largest = max(largest, int(stats.HeapAlloc))
			select {
			case <-done:
				most <- largest - before
				return
			case <-ticks.C:
			}
		}
	}()
	run()
	close(done)
	return <-most
}

// TestLargestMessages sends messages of 16 MiB that take the most memory after they are decoded: names without a
// character, and values that nothing uses. Five of them at once take no more than the part of a fleet.
func TestLargestMessages(t *testing.T) {
	for what, number := range map[string]protowire.Number{"names": 3, "unused values": 8} {
		t.Run(what, func(t *testing.T) {
			s := serve(t, grpcserver.Options{})
			wire := rawgrpc.Message(emptyFields(number))
			const streams = 5
			var sending sync.WaitGroup
			grown := peak(func() {
				for range streams {
					conn := dial(t, s.address)
					if err := conn.Headers(1, path); err != nil {
						t.Fatal(err)
					}
					sending.Go(func() {
						if err := conn.Send(1, wire, 1<<14, nil); err != nil {
							t.Errorf("%v, status %s", err, conn.Status(1))
						}
					})
				}
				sending.Wait()
			})
			t.Logf("the heap has grown by %d MiB", grown>>20)
			if grown > 100<<20 {
				t.Errorf("the heap has grown by %d MiB", grown>>20)
			}
		})
	}
}

// emptyFields returns a message of almost 16 MiB with empty fields of a number.
func emptyFields(number protowire.Number) []byte {
	message := protowire.AppendString(protowire.AppendTag(nil, 2, protowire.BytesType), "count")
	for len(message) < limit-10 {
		message = protowire.AppendBytes(protowire.AppendTag(message, number, protowire.BytesType), nil)
	}
	return message
}
