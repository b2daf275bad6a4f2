package route

// Kind is the kind of a Gateway API route.
type Kind string

// The kinds of the group gateway.networking.k8s.io that split traffic between backends by weight.
const (
	// HTTPRoute routes HTTP requests.
	HTTPRoute Kind = "HTTPRoute"
	// GRPCRoute routes gRPC calls.
	GRPCRoute Kind = "GRPCRoute"
	// TCPRoute routes TCP connections.
	TCPRoute Kind = "TCPRoute"
	// TLSRoute routes TLS connections by server name.
	TLSRoute Kind = "TLSRoute"
	// UDPRoute routes UDP flows.
	UDPRoute Kind = "UDPRoute"
)

// Resource returns the resource name of the kind in API paths, e.g. "httproutes".
func (k Kind) Resource() string {
	switch k {
	case HTTPRoute:
		return "httproutes"
	case GRPCRoute:
		return "grpcroutes"
	case TCPRoute:
		return "tcproutes"
	case TLSRoute:
		return "tlsroutes"
	case UDPRoute:
		return "udproutes"
	}
	return ""
}

// HeaderRoutes reports whether rules of this kind can match request headers.
func (k Kind) HeaderRoutes() bool { return k == HTTPRoute || k == GRPCRoute }

// MirrorRoutes reports whether rules of this kind can mirror requests.
func (k Kind) MirrorRoutes() bool { return k == HTTPRoute || k == GRPCRoute }

// Sessions reports whether rules of this kind can have sessions.
func (k Kind) Sessions() bool { return k == HTTPRoute || k == GRPCRoute }
