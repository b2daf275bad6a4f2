package zero

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/inside"
	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
)

const (
	// namespace is the namespace of the app and its proxy.
	namespace = "zero"
	// coldStart is the header of a response to a queued request.
	coldStart = "X-Keda-Http-Cold-Start"
	// together is the number of concurrent requests, and of apps that wake concurrently.
	together = 25
	// appHost is the host of the app.
	appHost = "web.test"
)

// TestRequestsWakeTheApp checks that requests wake the app and none fails, whatever happens to the components that
// queue them or report to KEDA.
func TestRequestsWakeTheApp(t *testing.T) {
	s, node := launch(t)
	t.Run("one, and several concurrent requests", s.wakeUndisturbed)
	t.Run("many apps concurrently", s.wakeManyApps)
	t.Run("the interceptor is replaced, and killed", s.wakeWithoutInterceptor)
	for _, program := range []string{"scaler", "keda"} {
		t.Run(program+" has just been killed", func(t *testing.T) {
			s.awaitZero(t)
			s.setReadyDelay(t, 0)
			kill(t, node, program)
			s.wake(t, together, func() {})
		})
	}
}

// wakeUndisturbed wakes the app without disturbance.
func (s suite) wakeUndisturbed(t *testing.T) {
	s.awaitZero(t)
	s.wake(t, 1, func() {})
	if got := s.ask(t.Context(), appHost); got.err != nil || got.status != http.StatusOK || got.isCold {
		t.Errorf("a request for an app that runs: %+v", got)
	}
	s.awaitZero(t)
	s.wake(t, together, func() {})
}

// wakeManyApps sends concurrent requests to many apps at zero. Their Pods start at the same time.
func (s suite) wakeManyApps(t *testing.T) {
	one, err := os.ReadFile("objects.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, app, _ := strings.Cut(string(one), "---\n") // after the Namespace
	var names, hosts, manifests []string
	for i := range together {
		name := fmt.Sprintf("crowd-%02d", i)
		names = append(names, "httpscaledobject/"+name)
		hosts, manifests = append(hosts, name+".test"), append(manifests,
			regexp.MustCompile(`\bweb\b`).ReplaceAllString(app, name))
	}
	file := filepath.Join(t.TempDir(), "apps.yaml")
	if err := os.WriteFile(file, []byte(strings.Join(manifests, "---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Do(t, "apply", "--server-side", "-f", file)
	defer s.Do(t, "delete", "-f", file, "--wait=false")
	for _, ready := range []string{"create", "condition=Programmed"} {
		s.Do(t, append([]string{"wait", "-n", namespace, "--for=" + ready}, names...)...)
	}
	s.Do(t, "wait", "-n", namespace, "scaledobject", "--all", "--for=condition=Ready")
	if pods := s.Do(t, "get", "-n", namespace, "pods", "-o", "name"); strings.Contains(pods, "pod/crowd-") {
		t.Fatalf("apps are awake before there is a request: %s", pods)
	}
	s.checkAnswered(t, hosts...)
}

// wakeWithoutInterceptor wakes an app with a long start while the components that queue its requests are replaced.
func (s suite) wakeWithoutInterceptor(t *testing.T) {
	const interceptor = "deployment/keda-add-ons-http-interceptor"
	s.awaitZero(t)
	s.setReadyDelay(t, 20) //nolint:mnd // seconds: longer than a rolling update
	s.wake(t, together, func() {
		s.Do(t, "rollout", "restart", "-n", "keda", interceptor)
		s.Do(t, "rollout", "status", "-n", "keda", interceptor)
	})
	s.awaitZero(t)
	s.wake(t, together, func() {
		s.Do(t, "delete", "pod", "-n", "keda", "-l", "app.kubernetes.io/component=interceptor", "--grace-period=0", "--force")
		s.Do(t, "rollout", "status", "-n", "keda", interceptor)
	})
}

// setReadyDelay makes the app's next Pods take at least that many seconds to become ready.
func (s suite) setReadyDelay(t *testing.T, seconds int) {
	t.Helper()
	s.Do(t, "patch", "-n", namespace, "deployment/web", "--type=json", "-p",
		fmt.Sprintf(`[{"op":"add","path":"/spec/template/spec/containers/0/readinessProbe/initialDelaySeconds","value":%d}]`,
			seconds))
}

// launch starts the cluster with the app and its proxy.
func launch(t *testing.T) (suite, *inside.Cluster) {
	t.Helper()
	cluster, repo := testbed.Launch(t, provider.Spec{
		Addons: []string{"keda"}, Forwards: map[string]string{namespace: "kedify-proxy." +
			namespace + ".svc.cluster.local:8080"},
	})
	node, err := inside.Open(cluster.Node)
	if err != nil {
		t.Fatal(err)
	}
	s := suite{testbed.Kubectl{Cluster: cluster}, "http://" + cluster.Addresses[namespace]}
	s.Do(t, "apply", "--server-side", "-f", filepath.Join(repo, "e2e/suites/zero/objects.yaml"))
	s.ExplainFailure(t, evidence()...)
	s.Do(t, "apply", "-n", namespace, "-k", filepath.Join(repo, "config", "kedify-proxy"))
	s.Do(t, "rollout", "status", "-n", namespace, "deployment/kedify-proxy")
	s.Do(t, "wait", "-n", namespace, "scaledobject/web", "--for=condition=Ready")
	s.Do(t, "wait", "-n", namespace, "httpscaledobject/web", "--for=condition=Programmed")
	return s, node
}

// kill kills all processes of a program and waits until they have ended.
func kill(t *testing.T, node *inside.Cluster, program string) {
	t.Helper()
	processes, err := node.Find(program)
	if err != nil || len(processes) == 0 {
		t.Fatalf("%d processes of %s, %v", len(processes), program, err)
	}
	for _, process := range processes {
		if _, _, err := process.Kill(t.Context()); err != nil {
			t.Fatalf("kill %s: %v", program, err)
		}
	}
	t.Logf("%d × %s killed", len(processes), program)
}

// suite is a cluster with the app, and the address of its proxy.
type suite struct {
	testbed.Kubectl

	url string
}

// answer is the result of a request.
type answer struct {
	status int
	isCold bool
	body   string
	after  time.Duration
	err    error
}

// ask sends a request to the app of a host.
func (s suite) ask(ctx context.Context, host string) answer {
	ctx, cancel := context.WithTimeout(ctx, await.Patience())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/color", http.NoBody)
	if err != nil {
		return answer{err: err}
	}
	request.Host = host
	began := time.Now()
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		return answer{err: err, after: time.Since(began)}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header.Get(coldStart) == "true", string(body), time.Since(began), err}
}

// wake sends requests at zero. It runs meanwhile while they are queued, once a replica is requested. All must succeed.
func (s suite) wake(t *testing.T, requests int, meanwhile func()) {
	t.Helper()
	began := time.Now()
	answers := s.askAll(t, slices.Repeat([]string{appHost}, requests)...)
	s.awaitReplicas(t, "1")
	requested := time.Since(began)
	meanwhile()
	t.Logf("%d of %d requests still wait", requests-len(answers), requests)
	times := all(t, answers)
	t.Logf("%d requests at zero: a replica is requested after %.2f s at most, the responses arrive after %.2f to %.2f s",
		requests, requested.Seconds(), times[0].Seconds(), times[requests-1].Seconds())
}

// checkAnswered sends one request to each of several apps at zero at once. All must succeed.
func (s suite) checkAnswered(t *testing.T, hosts ...string) {
	t.Helper()
	times := all(t, s.askAll(t, hosts...))
	t.Logf("%d requests for as many apps at zero: the answers come after %.2f, %.2f and %.2f s: the first, the one in "+
		"the middle, the last",
		len(hosts), times[0].Seconds(), times[len(times)/2].Seconds(), times[len(times)-1].Seconds())
}

// askAll sends one request to each of these hosts at once.
func (s suite) askAll(t *testing.T, hosts ...string) chan answer {
	t.Helper()
	answers := make(chan answer, len(hosts))
	for _, host := range hosts {
		go func() { answers <- s.ask(t.Context(), host) }()
	}
	return answers
}

// all returns the durations of all responses in ascending order. Each response must come from the app, after a wait.
func all(t *testing.T, answers <-chan answer) []time.Duration {
	t.Helper()
	var times []time.Duration
	for range cap(answers) {
		got := <-answers
		if got.err != nil || got.status != http.StatusOK || !strings.Contains(got.body, "blue") {
			invariant.Broken(t, invariant.FailedRequests, "at zero: %+v", got)
		}
		if !got.isCold {
			t.Errorf("an answer doesn't tell that it is a cold start: %+v", got)
		}
		times = append(times, got.after)
	}
	slices.Sort(times)
	return times
}

// awaitZero waits until the app has no replica and no Pod.
func (s suite) awaitZero(t *testing.T) {
	t.Helper()
	began := time.Now()
	s.awaitReplicas(t, "0")
	s.Do(t, "wait", "-n", namespace, "pod", "-l", "app=web", "--for=delete")
	t.Logf("no replica after %.0f s", time.Since(began).Seconds())
}

// awaitReplicas waits for a number of replicas in the spec of the app.
func (s suite) awaitReplicas(t *testing.T, want string) {
	t.Helper()
	seen := ""
	await.Described(t, want+" replicas", func() bool {
		out, err := s.Run(t.Context(), "kubectl", "get", "-n", namespace, "deployment/web", "-o", "jsonpath={.spec.replicas}")
		seen = strings.TrimSpace(out)
		return err == nil && seen == want
	}, func() string { return seen })
}

// evidence returns the kubectl commands that show the state after a failure.
func evidence() [][]string {
	return [][]string{
		{"get", "-n", namespace, "scaledobjects,httpso,hpa,deployments,pods,endpointslices"},
		{"describe", "-n", namespace, "scaledobject/web"},
		{"logs", "-n", namespace, "deployment/kedify-proxy", "--tail=40"},
		{"logs", "-n", "keda", "deployment/keda-operator", "--tail=40"},
		{"logs", "-n", "keda", "-l", "app.kubernetes.io/component=scaler", "--tail=40"},
		{"logs", "-n", "keda", "deployment/keda-add-ons-http-interceptor", "--tail=40"},
	}
}
