// Package rawgrpc sends what a gRPC client of a library cannot send: unfinished headers and messages, frames of one
// byte, and messages to a server whose responses are not read. It respects flow control, as each attacker has to.
package rawgrpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// frameHeader is the length of the prefix of a gRPC message.
	frameHeader = 5
	// initialWindow is the flow control window of HTTP/2 before any update, in bytes.
	initialWindow = 65535
)

// ErrEnded means that the server has ended the stream or the connection.
var ErrEnded = errors.New("the server has ended the stream")

// Conn is an HTTP/2 connection. One goroutine at a time may send.
type Conn struct {
	net.Conn

	writing sync.Mutex // held while a frame is written
	framer  *http2.Framer
	encoder *hpack.Encoder
	block   bytes.Buffer

	mu      sync.Mutex // guards the fields below
	changed *sync.Cond
	window  int64            // of the connection
	initial int64            // of a stream
	windows map[uint32]int64 // of the streams
	status  map[uint32]string
	ended   map[uint32]bool
	isOver  bool
}

// Dial connects from an address, and sends nothing. The zero address means any.
func Dial(ctx context.Context, from netip.Addr, to string) (*Conn, error) {
	var dialer net.Dialer
	if from.IsValid() {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	}
	conn, err := dialer.DialContext(ctx, "tcp", to)
	if err != nil {
		return nil, err
	}
	c := &Conn{
		Conn: conn, window: initialWindow, initial: initialWindow, windows: map[uint32]int64{}, status: map[uint32]string{},
		ended: map[uint32]bool{},
	}
	c.changed = sync.NewCond(&c.mu)
	c.framer = http2.NewFramer(conn, conn)
	c.framer.ReadMetaHeaders = hpack.NewDecoder(1<<12, nil)
	c.encoder = hpack.NewEncoder(&c.block)
	return c, nil
}

// Start makes the connection one of HTTP/2, and reads the server's frames in the background until Close.
func (c *Conn) Start() error {
	if err := c.StartSilently(); err != nil {
		return err
	}
	go c.readAll()
	return nil
}

// StartSilently is Start without reading.
func (c *Conn) StartSilently() error {
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		return err
	}
	return c.write(func() error { return c.framer.WriteSettings() })
}

// write writes a frame.
func (c *Conn) write(frame func() error) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return frame()
}

// readAll reads frames until the connection ends.
func (c *Conn) readAll() {
	for {
		frame, err := c.framer.ReadFrame()
		c.mu.Lock()
		if err != nil {
			c.isOver = true
		} else {
			c.handle(frame)
		}
		c.changed.Broadcast()
		c.mu.Unlock()
		if err != nil {
			return
		}
		if settings, isSettings := frame.(*http2.SettingsFrame); isSettings && !settings.IsAck() {
			_ = c.write(c.framer.WriteSettingsAck) // A write error ends the connection, and this loop.
		}
		if ping, isPing := frame.(*http2.PingFrame); isPing && !ping.IsAck() {
			_ = c.write(func() error { return c.framer.WritePing(true, ping.Data) })
		}
	}
}

// handle applies a frame. The caller holds the lock.
func (c *Conn) handle(frame http2.Frame) {
	id := frame.Header().StreamID
	switch frame := frame.(type) {
	case *http2.SettingsFrame:
		if initial, has := frame.Value(http2.SettingInitialWindowSize); has {
			for stream := range c.windows {
				c.windows[stream] += int64(initial) - c.initial
			}
			c.initial = int64(initial)
		}
	case *http2.WindowUpdateFrame:
		if id == 0 {
			c.window += int64(frame.Increment)
		} else {
			c.windows[id] += int64(frame.Increment)
		}
	case *http2.MetaHeadersFrame:
		for _, field := range frame.Fields {
			if field.Name == "grpc-status" {
				c.status[id] = field.Value
			}
		}
		c.ended[id] = c.ended[id] || frame.StreamEnded()
	case *http2.RSTStreamFrame:
		c.ended[id] = true
	}
}

// Headers opens a stream for a gRPC method. fields are further headers, as names and values in turn.
func (c *Conn) Headers(id uint32, path string, fields ...string) error {
	return c.writeHeaders(id, true, path, fields)
}

// UnfinishedHeaders is Headers without the end of the header block.
func (c *Conn) UnfinishedHeaders(id uint32, path string, fields ...string) error {
	return c.writeHeaders(id, false, path, fields)
}

// writeHeaders writes one frame with headers.
func (c *Conn) writeHeaders(id uint32, isComplete bool, path string, fields []string) error {
	c.mu.Lock()
	c.windows[id] = c.initial
	c.mu.Unlock()
	c.block.Reset()
	all := append([]string{
		":method", "POST", ":scheme", "http", ":path", path, ":authority", "interceptor", "content-type", "application/grpc",
		"te", "trailers",
	}, fields...)
	for i := 0; i+1 < len(all); i += 2 {
		if err := c.encoder.WriteField(hpack.HeaderField{Name: all[i], Value: all[i+1]}); err != nil {
			return err
		}
	}
	return c.write(func() error {
		return c.framer.WriteHeaders(http2.HeadersFrameParam{
			StreamID: id, BlockFragment: c.block.Bytes(), EndHeaders: isComplete,
		})
	})
}

// Continue sends a part of an unfinished header block.
func (c *Conn) Continue(id uint32, block []byte) error {
	return c.write(func() error { return c.framer.WriteContinuation(id, false, block) })
}

// EndHeaders sends the last part of an unfinished header block.
func (c *Conn) EndHeaders(id uint32, block []byte) error {
	return c.write(func() error { return c.framer.WriteContinuation(id, true, block) })
}

// Prefix returns the prefix of a message with a length.
func Prefix(length int) []byte {
	prefix := make([]byte, frameHeader)
	binary.BigEndian.PutUint32(prefix[1:], uint32(length)) //nolint:gosec // the lengths of tests are small
	return prefix
}

// Message returns a message with its prefix.
func Message(text []byte) []byte { return append(Prefix(len(text)), text...) }

// Send sends bytes on a stream in frames of a size, as fast as the server accepts them. pause is called after each
// frame; it may be nil. The error is ErrEnded if the server ends the stream.
func (c *Conn) Send(id uint32, data []byte, frame int, pause func()) error {
	for len(data) > 0 {
		size, err := c.reserve(id, min(frame, len(data)))
		if err != nil {
			return err
		}
		if err := c.write(func() error { return c.framer.WriteData(id, false, data[:size]) }); err != nil {
			return fmt.Errorf("%w: %w", ErrEnded, err)
		}
		data = data[size:]
		if pause != nil {
			pause()
		}
	}
	return nil
}

// End ends a stream.
func (c *Conn) End(id uint32) error {
	return c.write(func() error { return c.framer.WriteData(id, true, nil) })
}

// reserve waits until the server accepts bytes, and returns how many, at most size.
func (c *Conn) reserve(id uint32, size int) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.isOver && !c.ended[id] && (c.window <= 0 || c.windows[id] <= 0) {
		c.changed.Wait()
	}
	if c.isOver || c.ended[id] {
		return 0, ErrEnded
	}
	size = min(size, int(c.window), int(c.windows[id]))
	c.window -= int64(size)
	c.windows[id] -= int64(size)
	return size, nil
}

// Status waits until the server ends a stream, and returns its gRPC status, "" for none.
func (c *Conn) Status(id uint32) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.isOver && !c.ended[id] {
		c.changed.Wait()
	}
	return c.status[id]
}

// IsOver reports whether the server has closed the connection.
func (c *Conn) IsOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isOver
}
