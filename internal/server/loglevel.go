package server

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

const (
	// LogLevelPath is the path of LogLevel.
	LogLevelPath = "/log-level"
	// maxLogLevel is the maximum size of a level in bytes.
	maxLogLevel = 64
)

// LogLevel returns the level of the log to GET, and changes it by PUT with the level as the body. It serves only
// connections of this machine to its loopback address, as those of kubectl port-forward are: anyone who may open these, by
// the permission for pods/portforward, may change the level.
type LogLevel struct {
	// Level is the level.
	Level *slog.LevelVar
	// Logger receives each change.
	Logger *slog.Logger
}

// ServeHTTP implements http.Handler.
func (l LogLevel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !isLocal(r) {
		http.Error(w, "only connections to the loopback address may read or change the log level: "+
			"use kubectl port-forward", http.StatusForbidden)
		return
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodPut:
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxLogLevel))
		if err != nil {
			http.Error(w, "cannot read the level: "+err.Error(), http.StatusBadRequest)
			return
		}
		before := l.Level.Level()
		level, isKnown := levels()[strings.ToLower(strings.TrimSpace(string(text)))]
		if !isKnown {
			http.Error(w, fmt.Sprintf("log level %q: use debug, info, warn or error", text), http.StatusBadRequest)
			return
		}
		l.Level.Set(level)
		l.Logger.WarnContext(r.Context(), "log level changed", "before", before.String(), "now", l.Level.Level().String())
	default:
		w.Header().Set("Allow", "GET, PUT")
		http.Error(w, "use GET or PUT", http.StatusMethodNotAllowed)
		return
	}
	_, _ = fmt.Fprintln(w, l.Level.Level())
}

// levels returns the levels by name.
func levels() map[string]slog.Level {
	return map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	}
}

// isLocal reports whether both ends of a request's connection are loopback addresses. A sidecar proxy may connect from
// one to the address of the Pod.
func isLocal(r *http.Request) bool {
	local, hasLocal := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return hasLocal && isLoopback(local.String()) && isLoopback(r.RemoteAddr)
}

// isLoopback reports whether an address with a port is a loopback address.
func isLoopback(address string) bool {
	at, err := netip.ParseAddrPort(address)
	return err == nil && at.Addr().Unmap().IsLoopback()
}
