package server_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// TestLogLevel: connections to the loopback address read and change the level. Others may not, even by a proxy of the
// same Pod.
func TestLogLevel(t *testing.T) {
	t.Parallel()
	const loopback, pod = "127.0.0.1:2223", "10.0.0.7:2223"
	for name, test := range map[string]struct {
		method, body, local, remote string
		wantCode                    int
		wantText                    string
		wantLevel                   slog.Level
	}{
		"read":                      {"GET", "", loopback, "127.0.0.1:40000", 200, "INFO\n", slog.LevelInfo},
		"change":                    {"PUT", "debug", loopback, "127.0.0.1:40000", 200, "DEBUG\n", slog.LevelDebug},
		"change by IPv6":            {"PUT", "ERROR", "[::1]:2223", "[::1]:40000", 200, "ERROR\n", slog.LevelError},
		"another Pod":               {"PUT", "debug", pod, "10.0.0.8:40000", 403, "port-forward", slog.LevelInfo},
		"a sidecar of the same Pod": {"PUT", "debug", pod, "127.0.0.6:40000", 403, "port-forward", slog.LevelInfo},
		"no level":                  {"PUT", "loud", loopback, "127.0.0.1:40000", 400, `"loud"`, slog.LevelInfo},
		"more than an error":        {"PUT", "error+9999", loopback, "127.0.0.1:40000", 400, "use debug, info", slog.LevelInfo},
		"nothing":                   {"PUT", "", loopback, "127.0.0.1:40000", 400, "empty: use debug, info", slog.LevelInfo},
		"white space":               {"PUT", " \n", loopback, "127.0.0.1:40000", 400, "empty: use debug, info", slog.LevelInfo},
		"a number":                  {"PUT", "-4", loopback, "127.0.0.1:40000", 400, "use debug, info", slog.LevelInfo},
		"control characters":        {"PUT", "\x1b[2J", loopback, "127.0.0.1:40000", 400, `"\x1b[2J"`, slog.LevelInfo},
		"a level with a line end":   {"PUT", "Warn\r\n", loopback, "127.0.0.1:40000", 200, "WARN\n", slog.LevelWarn},
		"a long level":              {"PUT", strings.Repeat("x", 100), loopback, "127.0.0.1:40000", 413, "too large", slog.LevelInfo},
		"an endless level":          {"PUT", strings.Repeat("x", 10<<20), loopback, "127.0.0.1:40000", 413, "too large", slog.LevelInfo},
		"another method":            {"POST", "debug", loopback, "127.0.0.1:40000", 405, "GET or PUT", slog.LevelInfo},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var logs bytes.Buffer
			logger, level, err := server.NewLogger(&logs, server.FormatJSON, "info")
			if err != nil {
				t.Fatal(err)
			}
			local, err := net.ResolveTCPAddr("tcp", test.local)
			if err != nil {
				t.Fatal(err)
			}
			request := httptest.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, local),
				test.method, server.LogLevelPath, strings.NewReader(test.body))
			request.RemoteAddr = test.remote
			recorder := httptest.NewRecorder()
			server.LogLevel{Level: level, Logger: logger}.ServeHTTP(recorder, request)
			if recorder.Code != test.wantCode || !strings.Contains(recorder.Body.String(), test.wantText) {
				t.Errorf("%d %q, want %d with %q", recorder.Code, recorder.Body, test.wantCode, test.wantText)
			}
			if level.Level() != test.wantLevel {
				t.Errorf("level %v, want %v", level, test.wantLevel)
			}
			logger.Debug("a detail")
			if hasDetail := strings.Contains(logs.String(), "a detail"); hasDetail != (test.wantLevel == slog.LevelDebug) {
				t.Errorf("logs:\n%s", logs.String())
			}
		})
	}
}

// TestLogLevelChangesAreLogged: the log contains each change, also to and from a level that omits warnings, and nothing if
// the level stays the same.
func TestLogLevelChangesAreLogged(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before, now string
		want        int // records
	}{
		"more":           {"info", "debug", 1},
		"less":           {"info", "error", 1},
		"more, from few": {"error", "debug", 1},
		"the same":       {"info", "info", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var logs bytes.Buffer
			logger, level, err := server.NewLogger(&logs, server.FormatJSON, test.before)
			if err != nil {
				t.Fatal(err)
			}
			local, err := net.ResolveTCPAddr("tcp", "127.0.0.1:2223")
			if err != nil {
				t.Fatal(err)
			}
			request := httptest.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, local),
				http.MethodPut, server.LogLevelPath, strings.NewReader(test.now))
			request.RemoteAddr = "127.0.0.1:40000"
			server.LogLevel{Level: level, Logger: logger}.ServeHTTP(httptest.NewRecorder(), request)
			if got := strings.Count(logs.String(), `"log level changed"`); got != test.want {
				t.Errorf("%d records, want %d:\n%s", got, test.want, logs.String())
			}
		})
	}
}
