package kube_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// A credential plugin that hangs blocks its request no longer than the context of the request, and the error names it.
func TestCredentialPluginHangs(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "never-written")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	client := kube.NewClient(func() (*rest.Config, error) {
		return &rest.Config{Host: "http://api.test", ExecProvider: &api.ExecConfig{
			APIVersion: "client.authentication.k8s.io/v1", Command: "cat", Args: []string{pipe},
			InteractiveMode: api.NeverExecInteractiveMode,
		}}, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := client.Do(ctx, kube.Request{Path: []string{"healthz"}})
		ended <- err
	}()
	writer, err := os.OpenFile(pipe, os.O_WRONLY, 0) // waits until the program reads
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), `plugin "cat"`) {
		t.Errorf("the request ends with %v", err)
	}
	if err := writer.Close(); err != nil { // ends the program
		t.Error(err)
	}
}
