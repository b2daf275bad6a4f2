package xds

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds/session"
	"github.com/kedify/argo-rollouts-plugin/internal/server/grpcserver"
)

const (
	// joining and joiningPerFleet are the bytes of memory for proxies that join, by default. They are below the memory
	// limit of config/interceptor, together with 10,000 HTTPScaledObjects.
	joining, joiningPerFleet = 192 << 20, 96 << 20
	// joinTimeout is how long a proxy that has not joined may delay others. It is long, because a proxy on a busy node
	// needs minutes, and begins again when it is disconnected. joinPause is the pause between two checks after that.
	joinTimeout, joinPause = 5 * time.Minute, time.Second
)

// admit waits until there is memory for a new stream of a fleet to join, in order of arrival. The caller must release
// the result when it has. The server reads nothing from the stream before, so that requests wait in the proxy's
// transport. Streams that have joined reserve nothing, so they do not wait for others.
func (s *Server) admit(ctx context.Context, f *fleet) *grpcserver.Reservation {
	size := 0
	if snapshot := f.current().snapshot; snapshot != nil {
		size = snapshot.Count() * session.JoiningBytes
	}
	reserved := s.options.Joining.Request(f.name, size)
	select {
	case <-reserved.Granted():
	case <-ctx.Done():
	case <-s.closed:
	}
	return reserved
}

// checkJoin returns an error if a stream has not joined in time, and others wait for its memory.
func checkJoin(reserved *grpcserver.Reservation) error {
	if !reserved.DelaysOthers() {
		return nil
	}
	return status.Errorf(codes.Unavailable, "the proxy has not accepted its configuration for %v, and others wait for "+
		"their turn", joinTimeout)
}

// hasJoined reports whether the proxy has answered its first scopes.
func (st *stream) hasJoined() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.session.HasJoined()
}
