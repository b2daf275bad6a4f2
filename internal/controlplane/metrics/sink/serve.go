package sink

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

const (
	// Path is the path of the method that is served.
	Path = "/envoy.service.metrics.v3.MetricsService/StreamMetrics"

	// maxMessage bounds one message in bytes: 25,000 clusters of the public bootstrap. It is not kept.
	maxMessage = 128 << 20
	// bufferSize is what is read at once of a stream.
	bufferSize = 16 << 10
	// window is how much of a stream, and of a connection, may be under way.
	window = 256 << 10
	// messagePatience is how long one message may take once it has begun.
	messagePatience = 30 * time.Second
	// pingAfter and pingPatience find half-open connections.
	pingAfter    = 10 * time.Second
	pingPatience = 5 * time.Second
	// streamsPerConnection is generous: a proxy opens one.
	streamsPerConnection = 8
	// maxHeader bounds the headers of a request in bytes.
	maxHeader = 16 << 10
	// idlePatience is how long a connection may have no stream.
	idlePatience = time.Minute
	// headerPatience is how long a connection may take to become HTTP/2.
	headerPatience = 5 * time.Second
	// drain is how long a server may take to end its streams.
	drain = 2 * time.Second
	// frameHeader is the length of what is before each message: a flag and a length.
	frameHeader = 5
)

// Serve serves proxies on listener until ctx ends; then streams end with the status Unavailable, upon which
// proxies connect elsewhere. It closes listener in every case. It is called once.
func (s *Sink) Serve(ctx context.Context, listener net.Listener) error {
	streams, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Handler:           s,
		Protocols:         protocols,
		ReadHeaderTimeout: headerPatience,
		IdleTimeout:       idlePatience,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       func(net.Listener) context.Context { return streams },
		ErrorLog:          slog.NewLogLogger(s.logger.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          streamsPerConnection,
			MaxReceiveBufferPerConnection: window,
			MaxReceiveBufferPerStream:     window,
			SendPingTimeout:               pingAfter,
			PingTimeout:                   pingPatience,
		},
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve metrics on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	close(s.stopping)
	end(errStopping)
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	err := server.Shutdown(draining)
	if err != nil {
		err = server.Close()
	}
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// ServeHTTP serves one stream.
func (s *Sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.ProtoMajor != 2 || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		http.Error(w, "this port speaks gRPC: "+Path, http.StatusUnsupportedMediaType)
		return
	}
	w.Header().Set("Content-Type", "application/grpc")
	err := s.stream(w, r)
	result := status.Convert(err)
	if err != nil {
		s.metrics.refusals.WithLabelValues(result.Code().String()).Inc()
	}
	w.Header().Set(http.TrailerPrefix+"Grpc-Status", strconv.Itoa(int(result.Code())))
	w.Header().Set(http.TrailerPrefix+"Grpc-Message", encodeMessage(result.Message()))
}

// encodeMessage is text as Grpc-Message may have it: printable ASCII, the rest as percent and two digits.
func encodeMessage(text string) string {
	var encoded strings.Builder
	for _, b := range []byte(text) {
		if b >= ' ' && b <= '~' && b != '%' {
			encoded.WriteByte(b)
		} else {
			fmt.Fprintf(&encoded, "%%%02X", b)
		}
	}
	return encoded.String()
}

// stream reads a stream until it ends. The error is a status.
func (s *Sink) stream(w http.ResponseWriter, r *http.Request) error {
	if r.URL.Path != Path {
		return status.Error(codes.Unimplemented, "this server has only "+Path)
	}
	ctx := r.Context()
	control := http.NewResponseController(w)
	if err := control.Flush(); err != nil { // The proxy learns that it is served.
		return status.Error(codes.Unavailable, err.Error())
	}
	address, err := addressOf(r.RemoteAddr)
	if err != nil {
		return err
	}
	m, err := s.memberOf(ctx, address)
	if err != nil {
		s.logger.WarnContext(ctx, "Metric stream refused", slog.String("peer", r.RemoteAddr),
			slog.String("reason", status.Convert(err).Message()))
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	open := s.open(address, m, end)
	if open == nil {
		return s.errFull()
	}
	defer s.close(open)
	defer interrupt(ctx, control)()
	logger := s.logger.With(slog.String("peer", r.RemoteAddr), slog.String("fleet", string(m.fleet)), slog.String("proxy", m.proxy))
	logger.InfoContext(ctx, "Metric stream opened")
	err = s.receive(ctx, control, r.Body, open)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	logger.InfoContext(ctx, "Metric stream ended", slog.Any("error", err))
	return statusOf(err)
}

// interrupt ends reading when ctx ends. What it returns has to be called before the handler returns, and
// waits: a response that is over must not be touched.
func interrupt(ctx context.Context, control *http.ResponseController) (release func()) {
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		_ = control.SetReadDeadline(time.Unix(1, 0)) // A stream that is gone needs none.
	})
	return func() {
		if !stop() {
			<-interrupted
		}
	}
}

// statusOf is the status with which a stream ends.
func statusOf(err error) error {
	switch {
	case errors.Is(err, errMalformed):
		return status.Error(codes.InvalidArgument, err.Error())
	case errors.Is(err, errTooLarge):
		return status.Error(codes.ResourceExhausted, err.Error())
	case errors.Is(err, errSuperseded):
		return status.Error(codes.Aborted, err.Error())
	case errors.Is(err, metrics.ErrNoRequestCounters):
		return status.Error(codes.FailedPrecondition, err.Error())
	case err != nil:
		return status.Error(codes.Unavailable, err.Error())
	}
	return nil
}

// Errors that end streams.
var (
	errStopping   = errors.New("the metric sink is shutting down")
	errSuperseded = errors.New("the proxy has opened another stream")
	errMoved      = errors.New("the address is, since the stream was opened, that of proxy")
)

// receive takes messages in until the stream ends; nil says that the proxy is done.
func (s *Sink) receive(ctx context.Context, control *http.ResponseController, body io.Reader, open *session) error {
	from := bufio.NewReaderSize(body, bufferSize)
	var d decoder
	for {
		length, err := readFrame(from)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := control.SetReadDeadline(s.now().Add(messagePatience)); err != nil {
			return err
		}
		batch, err := d.decode(from, length)
		if err != nil {
			return err
		}
		if err := control.SetReadDeadline(time.Time{}); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.metrics.message(length, d.seen, d.kept)
		if err := s.apply(open, batch); err != nil {
			return err
		}
	}
}

// readFrame reads what is before a message and returns the message's length. io.EOF says that there is no other.
func readFrame(from *bufio.Reader) (int64, error) {
	var header [frameHeader]byte
	if _, err := io.ReadFull(from, header[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, broken(err)
		}
		return 0, err
	}
	if header[0] != 0 {
		return 0, fmt.Errorf("%w: it is compressed, and no compression was agreed on", errMalformed)
	}
	length := int64(binary.BigEndian.Uint32(header[1:]))
	if length > maxMessage {
		return 0, fmt.Errorf("%w: %d bytes, at most %d are read; limit what the proxy reports by stats_config.stats_matcher",
			errTooLarge, length, maxMessage)
	}
	return length, nil
}

// member is the proxy that a stream is of.
type member struct {
	fleet model.Fleet
	proxy string
}

// String is the proxy with its fleet before it.
func (m member) String() string { return string(m.fleet) + "/" + m.proxy }
