package provider

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// scriptCommand returns a command that runs a shell script.
func scriptCommand(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "command")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLocalCluster(t *testing.T) {
	command := scriptCommand(t, `
case "$1" in
status) echo '{"state":"running","kubeconfig":"/k","bin":"/b","logs":"/run/logs","node":77,"startSeconds":13.5,"transient":true,"addresses":{"apiserver":"127.0.0.1:1","proxy":"127.0.0.1:2"}}' ;;
build) [ "$*" = "build --estimate --with keda" ] && echo '{"components":["keda"],"seconds":300}' ;;
up) [ "$2" = --transient ] && echo "etcd is ready" >&2 ;;
*) exit 1 ;;
esac`)
	var progress strings.Builder
	l := LocalCluster{Path: command, Terminal: Terminal{Err: &progress}, Patience: await.Patience()}
	got, err := l.Status(t.Context())
	if err != nil || got.State != Running || got.Bin != "/b" || got.Logs != "/run/logs" || got.Node != 77 ||
		got.StartSeconds != 13.5 || !got.Transient || got.Addresses[ProxyAddress] != "127.0.0.1:2" {
		t.Errorf("status %+v, %v", got, err)
	}
	if e, err := l.Estimate(t.Context(), "keda"); err != nil || len(e.Components) != 1 || e.Seconds != 300 {
		t.Errorf("estimate %+v, %v", e, err)
	}
	if err := l.run(t.Context(), "up", "--transient"); err != nil || progress.String() != "etcd is ready\n" {
		t.Errorf("up: %v, progress %q", err, progress.String())
	}
	if err := l.run(t.Context(), "down"); err == nil {
		t.Error("a failing command is no error")
	}
}
