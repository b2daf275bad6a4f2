package server

import (
	"context"
	"errors"
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
		level, code, err := readLevel(w, r)
		if err != nil {
			http.Error(w, err.Error(), code)
			return
		}
		l.set(r.Context(), level)
	default:
		w.Header().Set("Allow", "GET, PUT")
		http.Error(w, "use GET or PUT", http.StatusMethodNotAllowed)
		return
	}
	_, _ = fmt.Fprintln(w, l.Level.Level())
}

// set changes the level. The record of the change is written at the more verbose of both levels, so that the log contains
// it, too, if only errors are logged from now on.
func (l LogLevel) set(ctx context.Context, level slog.Level) {
	before := l.Level.Level()
	if level < before {
		l.Level.Set(level)
	}
	if level != before {
		l.Logger.Log(ctx, max(slog.LevelWarn, min(level, before)), "log level changed", "before", before.String(), "now",
			level.String())
	}
	l.Level.Set(level)
}

// readLevel returns the level in the body of a request. With an error it returns the status of the response.
func readLevel(w http.ResponseWriter, r *http.Request) (level slog.Level, code int, err error) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxLogLevel))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return 0, http.StatusRequestEntityTooLarge, fmt.Errorf("the body is too large: %w", errLevel)
	case err != nil:
		return 0, http.StatusBadRequest, fmt.Errorf("read the level: %w", err)
	}
	name := strings.ToLower(strings.TrimSpace(string(text)))
	level, isKnown := levels()[name]
	switch {
	case name == "":
		return 0, http.StatusBadRequest, fmt.Errorf("the body is empty: %w", errLevel)
	case !isKnown:
		return 0, http.StatusBadRequest, fmt.Errorf("log level %q: %w", text, errLevel)
	}
	return level, http.StatusOK, nil
}

// errLevel is the fix for an invalid level.
var errLevel = errors.New("use debug, info, warn or error")

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
