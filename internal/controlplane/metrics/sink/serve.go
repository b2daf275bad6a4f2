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
	"net/netip"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/server/grpcserver"
)

const (
	// Path is the path of the served gRPC method.
	Path = "/envoy.service.metrics.v3.MetricsService/StreamMetrics"

	// maxMessage limits one message in bytes: 25,000 clusters with the public bootstrap. It is never in memory as a
	// whole.
	maxMessage = 128 << 20
	// bufferSize is the read buffer of a stream in bytes.
	bufferSize = 16 << 10
	// window is the flow control window of a stream, and of a connection, in bytes.
	window = 256 << 10
	// maxFrame is the largest frame in bytes. Each connection keeps a buffer for one.
	maxFrame = 16 << 10
	// messageTimeout limits the time from the start of a message to its end.
	messageTimeout = 30 * time.Second
	// pingInterval and pingTimeout detect half-open connections. Envoy answers a ping on its main thread, which applies
	// thousands of clusters for longer than 10 s if it has little processor time. The default of gRPC is 20 s.
	pingInterval = 10 * time.Second
	pingTimeout  = 20 * time.Second
	// streamsPerConnection limits the streams of a connection. A proxy needs one.
	streamsPerConnection = 8
	// maxHeader limits the headers of a request in bytes.
	maxHeader = 16 << 10
	// idleTimeout is how long a connection without a stream stays open.
	idleTimeout = time.Minute
	// headerTimeout limits the time until a connection has become HTTP/2.
	headerTimeout = 5 * time.Second
	// drainTimeout limits the time to end all streams.
	drainTimeout = 2 * time.Second
	// frameHeader is the length of the prefix of each message: a flag and a length.
	frameHeader = 5
)

// Serve serves proxies on listener until ctx ends. Then streams end with status Unavailable, and proxies connect to
// another replica. It always closes listener. Call it once.
func (s *Sink) Serve(ctx context.Context, listener net.Listener) error {
	streams, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	protocols.SetHTTP2(true) // for connections that listener returns as *tls.Conn
	server := &http.Server{
		Handler:           s,
		Protocols:         protocols,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       func(net.Listener) context.Context { return streams },
		ConnContext:       s.connContext,
		ErrorLog:          slog.NewLogLogger(s.logger.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          streamsPerConnection,
			MaxReceiveBufferPerConnection: window,
			MaxReceiveBufferPerStream:     window,
			MaxReadFrameSize:              maxFrame,
			SendPingTimeout:               pingInterval,
			PingTimeout:                   pingTimeout,
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
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
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
	if r.Method != http.MethodPost || r.ProtoMajor != 2 ||
		!strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		http.Error(w, "this port serves gRPC: "+Path, http.StatusUnsupportedMediaType)
		return
	}
	w.Header().Set("Content-Type", "application/grpc")
	err := s.stream(w, r)
	result := status.Convert(err)
	if err != nil {
		s.metrics.failures.WithLabelValues(result.Code().String()).Inc()
	}
	w.Header().Set(http.TrailerPrefix+"Grpc-Status", strconv.Itoa(int(result.Code())))
	w.Header().Set(http.TrailerPrefix+"Grpc-Message", grpcserver.EncodeMessage(result.Message()))
}

// stream serves a stream until it ends. The error is a gRPC status.
func (s *Sink) stream(w http.ResponseWriter, r *http.Request) error {
	if r.URL.Path != Path {
		return status.Error(codes.Unimplemented, "this server implements only "+Path)
	}
	ctx := r.Context()
	control := http.NewResponseController(w)
	if err := control.Flush(); err != nil { // The proxy receives the headers.
		return status.Error(codes.Unavailable, err.Error())
	}
	address, err := addressOf(r.RemoteAddr)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	open, err := s.admit(r, address, end)
	if err != nil {
		reason := status.Convert(err).Message()
		s.logger.Log(ctx, s.rejections.Level(address, reason), "metric stream rejected", slog.String("peer", r.RemoteAddr),
			slog.String("reason", reason))
		return err
	}
	defer s.close(open)
	defer interrupt(ctx, control)()
	logger := s.logger.With(
		slog.String("peer", r.RemoteAddr), slog.String("fleet", string(open.member.fleet)), slog.String("proxy", open.member.proxy),
	)
	logger.InfoContext(ctx, "metric stream opened")
	err = s.receive(ctx, control, r.Body, open)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	logger.InfoContext(ctx, "metric stream ended", slog.Any("error", err))
	return statusOf(err)
}

// admit opens the session of a request from an address. The error is a gRPC status.
func (s *Sink) admit(r *http.Request, address netip.Addr, end context.CancelCauseFunc) (*session, error) {
	m, isProven, err := s.memberOf(r, address)
	if err != nil {
		return nil, err
	}
	return s.open(address, m, isProven, end)
}

// interrupt aborts reads when ctx ends. release must be called before the handler returns, and waits: the response must
// not be used afterwards.
func interrupt(ctx context.Context, control *http.ResponseController) (release func()) {
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		_ = control.SetReadDeadline(time.Unix(1, 0)) // The error means that the stream has ended.
	})
	return func() {
		if !stop() {
			<-interrupted
		}
	}
}

// statusOf returns the status that a stream ends with.
func statusOf(err error) error {
	switch {
	case errors.Is(err, errMalformed):
		return status.Error(codes.InvalidArgument, err.Error())
	case errors.Is(err, errTooLarge):
		return status.Error(codes.ResourceExhausted, err.Error())
	case errors.Is(err, errSuperseded):
		return status.Error(codes.Aborted, err.Error())
	case errors.Is(err, errRevoked), errors.Is(err, errUnproven):
		return status.Error(codes.PermissionDenied, err.Error())
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
	errSuperseded = errors.New("superseded by another stream of the proxy")
	errMoved      = errors.New("the address now belongs to proxy")
	errUnproven   = errors.New("its fleet is strict, and the client has no valid token or no TLS: it must prove to be proxy")
	errRevoked    = errors.New("no HTTPScaledObject with an external key lists the address any more")
)

// receive reads messages until the stream ends. It returns nil if the proxy ended it.
func (s *Sink) receive(ctx context.Context, control *http.ResponseController, body io.Reader, open *session) error {
	from := bufio.NewReaderSize(body, bufferSize)
	d := decoder{share: &share{memory: &s.memory, account: open.account()}}
	defer d.share.free()
	for {
		length, err := readFrame(from)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := control.SetReadDeadline(s.now().Add(messageTimeout)); err != nil {
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
		s.metrics.message(length, d.seen, d.used)
		if err := s.apply(open, batch); err != nil {
			return err
		}
	}
}

// readFrame reads the prefix of a message and returns the message's length. io.EOF means that there is no further
// message.
func readFrame(from *bufio.Reader) (int64, error) {
	var header [frameHeader]byte
	if _, err := io.ReadFull(from, header[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, truncated(err)
		}
		return 0, err
	}
	if header[0] != 0 {
		return 0, fmt.Errorf("%w: compressed without a negotiated compression", errMalformed)
	}
	length := int64(binary.BigEndian.Uint32(header[1:]))
	if length > maxMessage {
		return 0, fmt.Errorf("%w: %d bytes exceed the limit of %d; limit the proxy's metrics by stats_config.stats_matcher",
			errTooLarge, length, maxMessage)
	}
	return length, nil
}

// member is the proxy of a stream.
type member struct {
	fleet model.Fleet
	proxy string
}

// String returns fleet/proxy.
func (m member) String() string { return string(m.fleet) + "/" + m.proxy }
