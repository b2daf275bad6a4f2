package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/try"
)

// TestLoadGeneratorOfTry: `kubectl http-canary try` runs this image with arguments of the subcommand.
func TestLoadGeneratorOfTry(t *testing.T) {
	setup := try.Setup{Namespace: "try-1", Router: facts.HTTPRouter, Image: "example.com/demo:1", Rate: 50}
	object, err := setup.LoadPod()
	if err != nil {
		t.Fatal(err)
	}
	var pod corev1.Pod
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Content, &pod); err != nil {
		t.Fatal(err)
	}
	args := pod.Spec.Containers[0].Args
	if args[0] != "request" {
		t.Fatalf("subcommand %q, want request", args[0])
	}
	got, err := parseTarget(args[1:], io.Discard)
	if err != nil || got.protocol != "http" || got.path != "/color" || got.rate != 50 {
		t.Errorf("arguments %q: %+v, %v", args, got, err)
	}
}

// TestAskByHTTP: only the colour is an answer.
func TestAskByHTTP(t *testing.T) {
	app := newApp(settings{color: "blue", path: "/color"})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "shop.example.com" {
			http.Error(w, "no\nsuch host", http.StatusServiceUnavailable)
			return
		}
		app.ServeHTTP(w, r)
	}))
	defer server.Close()
	q := target{
		protocol: "http", address: server.Listener.Addr().String(), host: "shop.example.com", path: "/color",
		client: server.Client(),
	}
	if got, err := q.request(t.Context()); got != "blue" || err != nil {
		t.Errorf("answer %q, %v", got, err)
	}
	q.path = "/"
	if got, err := q.request(t.Context()); err == nil {
		t.Errorf("a page was accepted as answer %q", got)
	}
	q.host = "other.example.com"
	if got, err := q.request(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "503 Service Unavailable: no such host") {
		t.Errorf("an error page was accepted as answer %q, %v", got, err)
	}
}
