package grpcserver

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"net/http"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const (
	// frameHeader is the length of the prefix of each message: a flag and a length.
	frameHeader = 5
	// messageTimeout limits the time from the start of a message to its end, and sendTimeout that to send a response of
	// more than largeResponse bytes.
	messageTimeout, sendTimeout = 30 * time.Second, time.Minute
	largeResponse               = 64 << 10
	// maxExempt is the largest message that needs no reservation, in bytes. An ACK is shorter.
	maxExempt = 1 << 10
	// decodedPerByte is how many bytes of memory a byte of a message can take after it was decoded, if it consists of
	// empty texts, and decodedPerField how many a repeated field takes, which may be an entry of a map. A message has at
	// most repeatedFields of them.
	decodedPerByte, decodedPerField, repeatedFields = 48, 90, 3
)

// memoryOf returns the memory that a message of a length can take: its bytes, those of its decoded texts, and the
// fields that refer to these.
func (l Limits) memoryOf(length int) int {
	fields := decodedPerByte * length
	if l.Repeated > 0 {
		fields = min(fields, decodedPerField*repeatedFields*l.Repeated)
	}
	return 2*length + fields
}

// stream implements grpc.ServerStream for one request.
type stream struct {
	server  *Server
	limits  Limits
	account string
	ctx     context.Context //nolint:containedctx // grpc.ServerStream has a method that returns it
	cancel  context.CancelFunc
	w       http.ResponseWriter
	control *http.ResponseController
	body    io.Reader
	// hasResponse means that the response to a single message was sent.
	hasResponse bool

	mu      sync.Mutex   // held while a message is received, guards the fields below
	isOver  bool         // nothing can be received any more
	current *Reservation // of the last message, nil for none
}

// newStream returns the stream of a request. The caller must call end before its response is complete.
func newStream(s *Server, limits Limits, account string, w http.ResponseWriter, r *http.Request) *stream {
	ctx, cancel := withDeadline(callContext(r, limits), r.Header.Get("Grpc-Timeout"))
	if limits.IsTransient {
		r.Header, r.Host, r.RequestURI, r.URL = nil, "", "", nil // The peer chose their sizes.
	}
	return &stream{
		server: s, limits: limits, account: account, ctx: ctx, cancel: cancel, w: w,
		control: http.NewResponseController(w), body: r.Body,
	}
}

// end aborts a RecvMsg of another goroutine and waits for it: the request must not be used afterwards.
func (s *stream) end() {
	s.cancel()
	_ = s.control.SetReadDeadline(time.Unix(1, 0)) // The error means that the request has ended.
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isOver = true
	s.release()
}

// release ends the reservation of the last message. The caller holds the lock.
func (s *stream) release() {
	if s.current != nil {
		s.current.Release()
		s.current = nil
	}
}

// Context implements grpc.ServerStream.
func (s *stream) Context() context.Context { return s.ctx }

// SetHeader, SendHeader and SetTrailer implement grpc.ServerStream. No service of this project uses them.
func (s *stream) SetHeader(metadata.MD) error  { return nil }
func (s *stream) SendHeader(metadata.MD) error { return nil }
func (s *stream) SetTrailer(metadata.MD)       {}

// RecvMsg implements grpc.ServerStream. It ends the reservation of the message before, which must not be used any more.
func (s *stream) RecvMsg(into any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release()
	if s.isOver {
		return io.EOF
	}
	err := s.receive(into)
	s.isOver = err != nil || s.limits.IsSingle
	if s.limits.IsTransient {
		s.release()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = s.statusOf(err)
	}
	return err
}

// receive receives one message. It returns io.EOF if there is no other one.
func (s *stream) receive(into any) error {
	if s.limits.IsSingle {
		s.setDeadline()
	}
	length, err := s.receivePrefix()
	if err != nil {
		return err
	}
	if length > maxExempt {
		if err := s.reserve(s.limits.memoryOf(length)); err != nil {
			return err
		}
		s.setDeadline()
		defer func() { _ = s.control.SetReadDeadline(time.Time{}) }() // The error means that the request has ended.
	}
	message := make([]byte, length)
	if _, err := io.ReadFull(s.body, message); err != nil {
		return truncated(err)
	}
	if s.limits.IsSingle {
		if n, err := s.body.Read(make([]byte, 1)); n > 0 || err == nil {
			return status.Error(codes.InvalidArgument, "more than one message")
		} else if !errors.Is(err, io.EOF) {
			return err
		}
	}
	return s.decode(message, into)
}

// reserve reserves memory for a message. A single message waits only for transient ones, because others of the
// connection wait for its unread bytes: the client repeats the call.
func (s *stream) reserve(size int) (err error) {
	if s.limits.IsSingle && !s.limits.IsTransient {
		if s.current = s.server.options.Received.tryReserve(s.account, size); s.current == nil {
			return status.Error(codes.Unavailable, "too many large messages")
		}
		return nil
	}
	s.current, err = s.server.options.Received.reserve(s.ctx, s.account, size)
	return err
}

// setDeadline limits the time to receive a message.
func (s *stream) setDeadline() {
	_ = s.control.SetReadDeadline(time.Now().Add(messageTimeout)) // The error means that the request has ended.
}

// receivePrefix receives the prefix of a message, and returns the message's length. It returns io.EOF if there is no
// other message.
func (s *stream) receivePrefix() (int, error) {
	var prefix [frameHeader]byte
	if _, err := io.ReadFull(s.body, prefix[:]); err != nil {
		return 0, err
	}
	if prefix[0] != 0 {
		return 0, status.Error(codes.Unimplemented, "compressed messages are not supported")
	}
	length := binary.BigEndian.Uint32(prefix[1:])
	if int64(length) > int64(s.limits.Message) {
		return 0, status.Errorf(codes.ResourceExhausted, "a message of %d bytes exceeds the limit of %d", length,
			s.limits.Message)
	}
	return int(length), nil
}

// decode decodes the used fields of a message.
func (s *stream) decode(message []byte, into any) (err error) {
	decoded, isMessage := into.(proto.Message)
	if !isMessage {
		return status.Errorf(codes.Internal, "%T is no message", into)
	}
	if s.limits.Fields != nil {
		if message, err = s.limits.Fields.trim(message, s.limits.Repeated); err != nil {
			return err
		}
	}
	if err := proto.Unmarshal(message, decoded); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return nil
}

// truncated returns the error of a message that ends early.
func truncated(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// statusOf returns the gRPC status of an error while a message was received.
func (s *stream) statusOf(err error) error {
	if _, isStatus := status.FromError(err); isStatus {
		return err
	}
	switch {
	case s.ctx.Err() != nil:
		return status.FromContextError(s.ctx.Err()).Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return status.Errorf(codes.DeadlineExceeded, "a message took longer than %v", messageTimeout)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return status.Error(codes.InvalidArgument, "the stream ended within a message")
	default:
		return status.Error(codes.Unavailable, err.Error())
	}
}

// Parts is a response that is encoded while it is sent, so that it takes no memory of its size. It yields the parts of
// the encoded message, the same each time. A part is valid until the next one.
type Parts iter.Seq[[]byte]

// partsOf returns a response as Parts.
func partsOf(m any) (Parts, error) {
	if parts, isEncoded := m.(Parts); isEncoded {
		return parts, nil
	}
	message, isMessage := m.(proto.Message)
	if !isMessage {
		return nil, status.Errorf(codes.Internal, "%T is no message", m)
	}
	text, err := proto.Marshal(message)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return func(yield func([]byte) bool) { yield(text) }, nil
}

// writeParts writes a response of several frames.
func writeParts(w io.Writer, prefix []byte, parts Parts) error {
	// A write returns the error of an earlier one, and so does Flush.
	to := bufio.NewWriterSize(w, maxFrame)
	_, _ = to.Write(prefix)
	for part := range parts {
		_, _ = to.Write(part)
	}
	return to.Flush()
}

// SendMsg implements grpc.ServerStream for messages and Parts. It returns when the peer's flow control has accepted the
// response.
func (s *stream) SendMsg(m any) error {
	parts, err := partsOf(m)
	if err != nil {
		return err
	}
	var prefix [frameHeader]byte
	text, size := prefix[:], 0 // A response of one frame, such as one host, is encoded once.
	for part := range parts {
		if size += len(part); frameHeader+size <= maxFrame {
			text = append(text, part...)
		}
	}
	binary.BigEndian.PutUint32(text[1:], uint32(size))
	if size > largeResponse || s.limits.isCall {
		_ = s.control.SetWriteDeadline(time.Now().Add(sendTimeout)) // The error means that the request has ended.
		defer func() { _ = s.control.SetWriteDeadline(time.Time{}) }()
	}
	s.hasResponse = s.hasResponse || s.limits.IsSingle
	if frameHeader+size <= maxFrame {
		_, err = s.w.Write(text)
	} else {
		err = writeParts(s.w, text[:frameHeader], parts)
	}
	if err = errors.Join(err, s.control.Flush()); err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	return nil
}
