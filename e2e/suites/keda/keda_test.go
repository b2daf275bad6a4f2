package keda

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

const (
	// polling is the ScaledObject's pollingInterval in seconds. With never, no poll happens during the test: only the
	// scaler's push wakes the workload.
	polling, never = 5, 24 * 60 * 60
	// streamCloser is the KEDA version that closes the connection under its own stream when a value is unknown. It needs
	// at least until the next poll to open another stream: see docs/how-to/scale-with-keda.md. Here the poll wakes the
	// workload.
	streamCloser = "2.21.0"
	// steady is how long a number must stay: several polls and syncs, and more than the cooldown.
	steady = 15 * time.Second
)

// Values of the annotation. Any text that is not a number or JSON object is unknown.
const (
	none    = `{}`
	queued  = `{"queued": 1, "concurrency": 1}`
	unknown = `unknown`
)

// TestKEDA lets one workload follow the scaler's values. Each step starts from the state of the previous one.
func TestKEDA(t *testing.T) {
	binary := build(t)
	cluster, repo := testbed.Launch(t,
		provider.Spec{Addons: []string{testbed.KEDAAddon()}, Programs: map[string]string{"scaler": binary}})
	s := suite{testbed.Kubectl{Cluster: cluster}}
	atZero := never // the pollingInterval while a reopened stream wakes the workload
	if s.CheckKEDAVersion(t) == streamCloser {
		atZero = polling
	}
	s.Do(t, "apply", "--server-side", "-f", filepath.Join(repo, "e2e/suites/keda/objects.yaml"))
	s.ExplainFailure(t, evidence()...)
	s.Do(t, "wait", "-n", "scaled", "scaledobject/web", "--for=condition=Ready")

	s.setPollingInterval(t, never)
	s.checkStays(t, "0", "without a request")
	s.setMetric(t, queued)
	s.awaitReplicas(t, "1", "a queued request activates the workload")
	s.setPollingInterval(t, polling)
	s.setMetric(t, `{"requestRate": 22}`)
	s.awaitReplicas(t, "5", "22 requests a second, 5 a replica")
	s.setMetric(t, `{"requestRate": 9}`)
	s.awaitReplicas(t, "2", "9 requests a second")
	s.setMetric(t, unknown)
	s.checkStays(t, "2", "while the value is unknown")
	s.setMetric(t, none)
	s.awaitReplicas(t, "0", "no request")

	// An unknown value ends a stream. KEDA has to reopen it without a poll.
	s.setPollingInterval(t, atZero)
	s.setMetric(t, unknown)
	s.checkStays(t, "0", "while the value is unknown")
	s.setMetric(t, none)
	const weights = "http.kedify.io/weighted-backends"
	s.Do(t, "annotate", "-n", "scaled", "httpscaledobject/web",
		weights+"=[{service: web, weight: 80}, {service: web-canary, weight: 20}]")
	s.awaitReplicas(t, "1", "a canary wakes the workload")
	s.setPollingInterval(t, polling)
	s.checkStays(t, "1", "while a canary is under way")
	s.Do(t, "annotate", "-n", "scaled", "httpscaledobject/web", weights+"-")
	s.awaitReplicas(t, "0", "the canary is over")

	s.setPollingInterval(t, atZero)
	s.checkStays(t, "0", "before the scaler is restarted")
	s.Do(t, "rollout", "restart", "-n", "keda", "deployment/keda-add-ons-http-external-scaler")
	s.Do(t, "rollout", "status", "-n", "keda", "deployment/keda-add-ons-http-external-scaler")
	s.setMetric(t, queued)
	s.awaitReplicas(t, "1", "a queued request after the scaler was restarted")
}

// suite is a cluster with the workload.
type suite struct{ testbed.Kubectl }

// setMetric sets the value that the scaler reports.
func (s suite) setMetric(t *testing.T, value string) {
	t.Helper()
	s.Do(t, "annotate", "-n", "scaled", "httpscaledobject/web", "--overwrite", "test.kedify.io/figure="+value)
}

// setPollingInterval sets the ScaledObject's pollingInterval. KEDA then polls once and opens a new stream.
func (s suite) setPollingInterval(t *testing.T, seconds int) {
	t.Helper()
	s.Do(t, "patch", "-n", "scaled", "scaledobject/web", "--type=merge", "-p",
		fmt.Sprintf(`{"spec":{"pollingInterval":%d}}`, seconds))
}

// replicas returns the number of replicas in the spec of the workload.
func (s suite) replicas(ctx context.Context) string {
	out, err := s.Run(ctx, "kubectl", "get", "-n", "scaled", "deployment/web", "-o", "jsonpath={.spec.replicas}")
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(out)
}

// awaitReplicas waits for a number of replicas and logs how long that took.
func (s suite) awaitReplicas(t *testing.T, want, why string) {
	t.Helper()
	began, seen := time.Now(), ""
	await.Described(t, want+" replicas: "+why, func() bool {
		seen = s.replicas(t.Context())
		return seen == want
	}, func() string { return seen })
	t.Logf("%s replicas after %.1f s: %s", want, time.Since(began).Seconds(), why)
}

// checkStays checks that a number of replicas stays the same for a while.
func (s suite) checkStays(t *testing.T, want, why string) {
	t.Helper()
	//testbounds:allow how long the replicas must stay
	ctx, cancel := context.WithTimeout(t.Context(), steady)
	defer cancel()
	for ctx.Err() == nil {
		if seen := s.replicas(t.Context()); seen != want {
			t.Fatalf("%s replicas, want %s: %s", seen, want, why)
		}
	}
	t.Logf("%s replicas for %s: %s", want, steady, why)
}

// evidence returns the kubectl commands that show the state after a failure.
func evidence() [][]string {
	return [][]string{
		{"get", "-A", "scaledobjects,hpa,deployments,pods,apiservices"},
		{"describe", "-n", "scaled", "scaledobject/web"},
		{"logs", "-n", "keda", "deployment/keda-operator", "--tail=40"},
		{"logs", "-n", "keda", "-l", "app.kubernetes.io/component=scaler", "--tail=40"},
	}
}

// build builds the scaler with annotated values. It uses the flags of the cluster's programs, so that their compiled
// packages are reused.
func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "scaler")
	command := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-tags=grpcnotrace",
		"-gcflags=all=-dwarf=false", "-ldflags", "-s -w",
		"-o", binary, "./test/annotatedscaler")
	command.Dir, command.Env = os.Getenv("LOCALCLUSTER_REPO"), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build the scaler: %v\n%s", err, out)
	}
	return binary
}
