package gateway

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
)

// environment gives access to the running cluster.
type environment struct {
	cluster   *provider.Cluster
	runner    kube.Runner
	repo      string
	logs      string // folder with the node's logs
	addresses map[string]string
	setup     setup
}

// proxy is an implementation in front of a guide's app.
type proxy struct {
	// manifest is the guide's file with the Gateway, service the name of the Service in front of it.
	manifest, service string
	// inspector reads what the proxy applies; nil if the run does not need that.
	inspector *inspector
}

// start starts a cluster with the implementations of a setup.
func start(t *testing.T, s setup) environment {
	t.Helper()
	cluster, repo := testbed.Launch(t, provider.Spec{Addons: s.addons, Forwards: s.forwards})
	w := environment{
		cluster: cluster, runner: cluster, repo: repo, logs: cluster.Logs, addresses: cluster.Addresses, setup: s,
	}
	files := []string{testbed.LimitRangeFile(repo)}
	for _, file := range s.files {
		files = append(files, w.example(file))
	}
	w.applyFiles(t, files...)
	return w
}

// example returns the path of a file of the guides.
func (w environment) example(elements ...string) string {
	return filepath.Join(append([]string{w.repo, "examples", "gatewayapi"}, elements...)...)
}

// do runs a command, which must succeed, and returns its output.
func (w environment) do(t *testing.T, args ...string) string {
	t.Helper()
	out, err := w.try(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// try runs a command.
func (w environment) try(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, testbed.CommandTimeout())
	defer cancel()
	return w.runner.Run(ctx, args...)
}

// awaitCondition waits until a condition of objects is True.
func (w environment) awaitCondition(t *testing.T, condition string, objects ...string) {
	t.Helper()
	w.do(t, append([]string{"kubectl", "wait", "--for=condition=" + condition, testbed.WaitTimeout()}, objects...)...)
}

// apply applies files of a guide, and deletes their objects when the test ends.
func (w environment) apply(t *testing.T, guide string, files ...string) {
	t.Helper()
	paths := make([]string, 0, len(files))
	for _, file := range files {
		paths = append(paths, w.example(guide, file+".yaml"))
	}
	w.applyFiles(t, paths...)
}

// applyFiles applies files. When the test ends it deletes their objects and waits until they are gone.
func (w environment) applyFiles(t *testing.T, paths ...string) {
	t.Helper()
	files := []string{"-f", strings.Join(paths, ",")}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), testbed.CommandTimeout())
		defer cancel()
		if _, err := w.runner.Run(ctx, append([]string{"kubectl", "delete", "--ignore-not-found"}, files...)...); err != nil {
			t.Error(err)
		}
	})
	w.do(t, append([]string{"kubectl", "apply"}, files...)...)
}

// explainFailure logs the state of objects if the test fails.
func (w environment) explainFailure(t *testing.T, kinds string) {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		tail := []string{"--tail=20", "--prefix"}
		for _, args := range [][]string{
			{"kubectl", "get", "pods", "-A", "-o", "wide"},
			{"kubectl", "get", kinds, "-A", "-o", "yaml"},
			{"kubectl", "get", "gateways", "-A", "-o", "yaml"},
			{"kubectl", "get", "events", "--sort-by=.lastTimestamp"},
			append([]string{"kubectl", "-n", "argo-rollouts", "logs", "deploy/argo-rollouts"}, tail...),
			append(append([]string{"kubectl", "logs"}, w.setup.controller...), tail...),
		} {
			out, err := w.try(context.WithoutCancel(t.Context()), args...)
			t.Logf("$ %s\n%s%v", strings.Join(args, " "), out, err)
		}
		t.Logf("requests that Envoy Gateway's proxies answered with an error:\n%s", testbed.EnvoyGatewayErrors(w.logs))
	})
}
