package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/server"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// kubeconfig writes a kubeconfig for an API server at address, and returns its path.
func kubeconfig(t *testing.T, address string) string {
	t.Helper()
	const text = `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "ADDRESS"}}], users: [{name: u, user: {token: t}}]}`
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "ADDRESS", address)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// local returns settings with free ports of this host and an unreachable API server.
func local(t *testing.T) settings {
	t.Helper()
	const free = "127.0.0.1:0"
	return settings{
		kubeconfig: kubeconfig(t, "http://127.0.0.1:1"),
		xdsAddress: free, sinkAddress: free, proxyAddress: free, adminAddress: free, metricsAddress: free, dashboardAddress: free,
		podName: "pod-1", podNamespace: "keda", maxStreams: 1, shutdownDeadline: 10 * time.Second,
		logFormat: "json", logLevel: "info", profiling: true,
	}
}

// get requests a page and returns its status code and text.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Timeout: await.Patience(), Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// listening reads logs until all ports except xDS are open, and returns their addresses. It drains the rest.
func listening(t *testing.T, logs io.Reader) map[string]string {
	t.Helper()
	addresses := map[string]string{}
	scanner := bufio.NewScanner(logs)
	for len(addresses) < 4 && scanner.Scan() {
		var line struct{ Msg, Port, Address string }
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
			t.Fatalf("not a line of JSON: %s", scanner.Bytes())
		}
		if line.Msg == "listening" {
			addresses[line.Port] = line.Address
		}
	}
	go func() { _, _ = io.Copy(io.Discard, logs) }()
	return addresses
}

func TestServeWaitsForTheAPIServer(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	logs, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- serve(ctx, local(t), out)
		_ = out.Close()
	}()
	at := listening(t, logs)
	for _, page := range []struct {
		url, wantText string
		code          int
	}{
		{at["health"] + "/livez", "ok", 200},
		{at["health"] + "/readyz", "waiting for:", 503},
		{at["health"] + "/shop", "no endpoint", 503},
		{at["metrics"] + "/metrics", "kedify_ingest_passes_total 0", 200},
		{at["admin"] + "/debug/pprof/goroutine?debug=1", "goroutine profile", 200},
		{at["admin"] + "/queue", "{}", 200},
		{at["admin"] + "/envoy-metrics-map", "{}", 200},
		{at["admin"] + "/dashboard/", "404", 404}, // There is no TLS.
		{at["dashboard"] + "/", "<title>", 200},
		{at["dashboard"] + "/api/v1/objects", `"objects":[]`, 200},
	} {
		if code, text := get(t, "http://"+page.url); code != page.code || !strings.Contains(text, page.wantText) {
			t.Errorf("%s = %d %.300q, want %d with %q", page.url, code, text, page.code, page.wantText)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("serve = %v", err)
	}
}

func TestServeErrors(t *testing.T) {
	taken, err := server.Listen(t.Context(), "test", "127.0.0.1:0", "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	tests := map[string]struct {
		change       func(*settings)
		wantMessages []string
	}{
		"a port that is taken": {
			func(s *settings) { s.metricsAddress = taken.Addr().String() },
			[]string{taken.Addr().String(), "metrics", "--metrics-address"},
		},
		"an unknown log format": {func(s *settings) { s.logFormat = "xml" }, []string{"xml", "json or text"}},
		"a kubeconfig that is not there": {
			func(s *settings) { s.kubeconfig = "/nowhere" },
			[]string{"/nowhere", "--kubeconfig"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			chosen := local(t)
			test.change(&chosen)
			err := serve(t.Context(), chosen, io.Discard)
			for _, part := range test.wantMessages {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("error %v, want one with %q", err, part)
				}
			}
		})
	}
}
