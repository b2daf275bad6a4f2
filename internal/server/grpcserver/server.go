package grpcserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

const (
	// StreamsPerConnection is the maximum number of streams of a connection. Clients use more connections for more
	// streams.
	StreamsPerConnection = 100
	// streamWindow is the flow control window of a stream in bytes. A client may send as many before it has received the
	// settings of the server (RFC 9113, section 6.9.2). connectionWindow is that of a connection: more than those of the
	// streams of one proxy that may wait for a reservation, so that these block no other one.
	streamWindow, connectionWindow = 64 << 10, 512 << 10
	// maxFrame is the largest frame in bytes, the minimum of HTTP/2. Each connection keeps a buffer for one.
	maxFrame = 16 << 10
	// maxHeader limits the headers of a stream in bytes.
	maxHeader = 64 << 10
	// headerTimeout limits the time until a connection has become HTTP/2, and idleTimeout that without streams.
	headerTimeout, idleTimeout = 10 * time.Second, 10 * time.Minute
	// writeTimeout is how long a connection may accept no byte.
	writeTimeout = 20 * time.Second
	// DefaultPingInterval and pingTimeout detect half-open connections. Envoy answers pings on its main thread. With
	// little processor time, that thread can need more than 10 s to apply thousands of clusters.
	DefaultPingInterval = 30 * time.Second
	pingTimeout         = 20 * time.Second
	// DefaultMaxStreams is the default of Options.MaxStreams.
	DefaultMaxStreams = 2000

	// defaultReceived and its part for one account are the default Budget in bytes. It is below the memory limit of
	// config/interceptor, together with 10,000 HTTPScaledObjects and 10,000 queued requests.
	defaultReceived, defaultReceivedPerAccount = 128 << 20, 64 << 20
)

// Options are the settings of a Server. The zero value is valid.
type Options struct {
	// AccountOf returns the account of a peer in Received. nil means one account for all.
	AccountOf func(peer netip.Addr) string
	// MaxStreams limits the streams of one address; 0 means DefaultMaxStreams.
	MaxStreams int
	// MaxPushes limits the streams of all addresses whose methods send several responses to one request, and MaxCalls
	// the calls with one request and one response. Above a limit, an address with fewer of them replaces those of the
	// address that has the most, except the streams of an address with at most three quarters of MaxPushes. 0 means no
	// limit.
	MaxPushes, MaxCalls int
	// PerConnection limits the streams of a connection; 0 means StreamsPerConnection.
	PerConnection int
	// Header limits the headers of a stream in bytes, and Window is the flow control window of a connection; 0 means the
	// default.
	Header, Window int
	// Intercept is called for each call with one request and one response; nil for none.
	Intercept grpc.UnaryServerInterceptor
	// Received is the Budget of messages; nil means the default.
	Received *Budget
	// PingInterval is the time without a frame after which a connection is pinged; 0 means DefaultPingInterval.
	PingInterval time.Duration
	// Logger logs panics of handlers, and errors of connections at level debug; nil for none.
	Logger *slog.Logger
}

// Limits are the limits of the messages that a method receives.
type Limits struct {
	// Message is the largest message in bytes.
	Message int
	// Fields are the fields that the method uses.
	Fields Fields
	// Repeated is the maximum number of fields with the same number. Others are discarded.
	Repeated int
	// IsSingle means that a stream must end after one message.
	IsSingle bool
	// IsTransient means that the handler keeps nothing of a message and of the headers: the reservation ends when the
	// message is decoded, so messages wait for theirs. Metadata is not available.
	IsTransient bool

	// isCall means that the handler sends one response at once, and isPush that it answers one message by several.
	isCall, isPush bool
}

// standardLimits returns the limits of methods without limits of their own, which are those for other replicas.
func standardLimits() Limits { return Limits{Message: maxExempt} }

// method is a served method.
type method struct {
	handle func(context.Context, grpc.ServerStream) error
	limits Limits
}

// Server serves methods. Make it with New. It implements grpc.ServiceRegistrar.
type Server struct {
	options Options
	http    http.Server
	methods map[string]method // by path

	mu      sync.Mutex
	streams map[netip.Addr]int // of each address

	pushes, calls *fairLimit
	refusing      atomic.Int64 // streams that end because of a limit
}

// New returns a Server without methods.
func New(options Options) *Server {
	if options.AccountOf == nil {
		options.AccountOf = func(netip.Addr) string { return "" }
	}
	options.MaxStreams = cmp.Or(options.MaxStreams, DefaultMaxStreams)
	if options.Received == nil {
		options.Received = NewBudget(defaultReceived, defaultReceivedPerAccount)
	}
	options.PerConnection = cmp.Or(options.PerConnection, StreamsPerConnection)
	options.Header, options.Window = cmp.Or(options.Header, maxHeader), cmp.Or(options.Window, connectionWindow)
	options.PingInterval = cmp.Or(options.PingInterval, DefaultPingInterval)
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{options: options, methods: map[string]method{}, streams: map[netip.Addr]int{}}
	s.pushes, s.calls = newFairLimit(options.MaxPushes, options.MaxPushes/4*3), newFairLimit(options.MaxCalls, 0)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	protocols.SetHTTP2(true) // for connections that a transport.Listener returns as *tls.Conn
	s.http = http.Server{
		Handler: s, Protocols: protocols, ConnContext: connContext,
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: options.Header,
		ErrorLog: slog.NewLogLogger(options.Logger.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          options.PerConnection,
			MaxReceiveBufferPerStream:     streamWindow,
			MaxReceiveBufferPerConnection: options.Window,
			MaxReadFrameSize:              maxFrame,
			SendPingTimeout:               options.PingInterval,
			PingTimeout:                   pingTimeout,
			WriteByteTimeout:              writeTimeout,
		},
	}
	return s
}

// RegisterService implements grpc.ServiceRegistrar for services with short messages, such as those between replicas of
// this program.
func (s *Server) RegisterService(service *grpc.ServiceDesc, implementation any) {
	s.RegisterWithLimits(service, implementation, nil)
}

// RegisterWithLimits is RegisterService with limits by the name of the method.
func (s *Server) RegisterWithLimits(service *grpc.ServiceDesc, implementation any, limits map[string]Limits) {
	add := func(name string, change func(*Limits), handle func(context.Context, grpc.ServerStream) error) {
		own, hasOwn := limits[name]
		if !hasOwn {
			own = standardLimits()
		}
		change(&own)
		s.methods["/"+service.ServiceName+"/"+name] = method{handle: handle, limits: own}
	}
	for _, described := range service.Streams {
		isPush := described.ServerStreams && !described.ClientStreams
		add(described.StreamName, func(own *Limits) { own.isPush = isPush },
			func(_ context.Context, stream grpc.ServerStream) error {
				return described.Handler(implementation, stream)
			})
	}
	for _, described := range service.Methods {
		add(described.MethodName, func(own *Limits) { own.IsSingle, own.isCall = true, true },
			func(ctx context.Context, stream grpc.ServerStream) error {
				response, err := described.Handler(implementation, ctx, stream.RecvMsg, s.options.Intercept)
				if err != nil {
					return err
				}
				return stream.SendMsg(response)
			})
	}
}

// Methods returns the paths of the served methods, sorted.
func (s *Server) Methods() []string { return slices.Sorted(maps.Keys(s.methods)) }

// Serve serves a listener until Stop or GracefulStop. It always closes the listener.
func (s *Server) Serve(listener net.Listener) error {
	if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// GracefulStop closes the port and waits until all streams have ended.
func (s *Server) GracefulStop() { _ = s.http.Shutdown(context.Background()) } // Only the listener can fail to close.

// Stop closes the port and all connections.
func (s *Server) Stop() { _ = s.http.Close() } // They are closed regardless of the error.

// ServeHTTP implements http.Handler: it serves one stream.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.ProtoMajor != 2 ||
		!strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		http.Error(w, "this port serves gRPC", http.StatusUnsupportedMediaType)
		return
	}
	w.Header().Set("Content-Type", "application/grpc")
	hasHeaders, err := s.serve(w, r)
	_ = r.Body.Close() // From now on unread bytes are discarded.
	prefix := ""       // The headers contain the status.
	if hasHeaders {
		prefix = http.TrailerPrefix
	}
	result, isStatus := status.FromError(err)
	if !isStatus {
		result = status.FromContextError(err)
	}
	w.Header().Set(prefix+"Grpc-Status", strconv.Itoa(int(result.Code())))
	w.Header().Set(prefix+"Grpc-Message", EncodeMessage(fmt.Sprintf("%.2000s", result.Message())))
}

// serve calls the handler of a stream, and reports whether the peer has received headers. The error is a gRPC status.
//
// The peer of a single message receives the headers with the response: Envoy repeats a call only as long as it has not
// received headers, or if these contain the status.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) (hasHeaders bool, err error) {
	called, exists := s.methods[r.URL.Path]
	if !exists {
		return false, status.Errorf(codes.Unimplemented, "no method %.200s", r.URL.Path)
	}
	from, err := server.PeerAddress(r.RemoteAddr)
	if err == nil { // Otherwise it is not TCP, which only tests use.
		leave, err := s.enter(r.Context(), from, called.limits, r)
		if err != nil {
			s.refuse(r)
			return false, err
		}
		defer leave()
	}
	stream := newStream(s, called.limits, s.options.AccountOf(from), w, r)
	defer stream.end()
	if !called.limits.IsSingle {
		if err := stream.control.Flush(); err != nil {
			return true, status.Error(codes.Unavailable, err.Error())
		}
	}
	err = s.handle(called, stream)
	return !called.limits.IsSingle || stream.hasResponse, err
}

// handle calls the handler of a stream. A panic costs only this stream.
func (s *Server) handle(called method, stream *stream) error {
	err := server.Recovered(func() error { return called.handle(stream.ctx, stream) })
	if panicked, isPanic := errors.AsType[*server.PanicError](err); isPanic {
		s.options.Logger.ErrorContext(stream.ctx, "panic in a gRPC handler: please report this bug",
			"error", err, "stack", string(panicked.Stack))
		return status.Error(codes.Internal, "panic")
	}
	return err
}

// peerAddr is the address of a peer as in http.Request.RemoteAddr.
type peerAddr string

func (a peerAddr) Network() string { return "tcp" }
func (a peerAddr) String() string  { return string(a) }

// callContext returns the context of a stream with what gRPC adds: its peer and its metadata.
func callContext(r *http.Request, limits Limits) context.Context {
	received := metadata.MD{}
	if !limits.IsTransient {
		for name, values := range r.Header {
			received[strings.ToLower(name)] = values
		}
	}
	ctx := metadata.NewIncomingContext(r.Context(), received)
	return peer.NewContext(ctx, &peer.Peer{Addr: peerAddr(r.RemoteAddr)})
}

// withDeadline adds the deadline of the header Grpc-Timeout to a context: at most 8 digits and a unit.
func withDeadline(ctx context.Context, text string) (context.Context, context.CancelFunc) {
	if len(text) >= 2 && len(text) <= 9 {
		last := len(text) - 1
		count, err := strconv.ParseUint(text[:last], 10, 32)
		if unit := unitOf(text[last]); err == nil && unit > 0 && (unit < time.Hour || count < 1_000_000) {
			return context.WithTimeout(ctx, time.Duration(count)*unit)
		}
	}
	return context.WithCancel(ctx)
}

// unitOf returns the unit of a timeout, 0 for an unknown one.
func unitOf(letter byte) time.Duration {
	switch letter {
	case 'H':
		return time.Hour
	case 'M':
		return time.Minute
	case 'S':
		return time.Second
	case 'm':
		return time.Millisecond
	case 'u':
		return time.Microsecond
	case 'n':
		return time.Nanosecond
	}
	return 0
}

// EncodeMessage encodes text for the trailer Grpc-Message: printable ASCII, the rest percent-encoded.
func EncodeMessage(text string) string {
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
