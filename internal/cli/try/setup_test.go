package try_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/config"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts/gather"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/try"
)

// setup returns the setup of a trial.
func setup(router string) try.Setup {
	return try.Setup{
		Namespace: "try-1", Router: router, Image: "example.com/demo:1", Weight: 30, Rate: 50, Requests: 100,
		Gateway: types.NamespacedName{Namespace: "edge", Name: "gate"},
	}
}

// TestObjectsAreInTheTrialNamespace: objects elsewhere would not be deleted, or would belong to other users.
func TestObjectsAreInTheTrialNamespace(t *testing.T) {
	t.Parallel()
	for router, want := range map[string][]string{
		facts.HTTPRouter: {
			"Service try-1/try-stable", "Service try-1/try-canary", "Rollout try-1/try", "HTTPScaledObject try-1/try",
			"ConfigMap try-1/kedify-proxy-bootstrap",
			"Service try-1/kedify-proxy", "Service try-1/kedify-proxy-admin", "PodDisruptionBudget try-1/kedify-proxy",
			"Deployment try-1/kedify-proxy",
		},
		facts.GatewayRouter: {
			"Service try-1/try-stable", "Service try-1/try-canary", "Rollout try-1/try",
			"HTTPRoute try-1/try",
		},
	} {
		parameters := setup(router)
		objects, err := parameters.Objects(config.Files)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, object := range objects {
			got = append(got, object.String())
			if namespace := object.Content["metadata"].(map[string]any)["namespace"]; namespace != "try-1" {
				t.Errorf("%s is in namespace %v", object, namespace)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", router, diff)
		}
	}
}

// TestRouterAcceptsTheRollout parses the Rollout with the code of the routers.
func TestRouterAcceptsTheRollout(t *testing.T) {
	t.Parallel()
	for _, router := range []string{facts.HTTPRouter, facts.GatewayRouter} {
		parameters := setup(router)
		rollout, err := parameters.Rollout()
		if err != nil {
			t.Fatal(err)
		}
		read := gather.ParseRollout(rollout)
		if read.ServicesError != nil || read.ObjectError != nil || read.RoutesError != nil || !read.Uses(router) ||
			*rollout.Spec.Strategy.Canary.Steps[0].SetWeight != 30 {
			t.Errorf("%s: %v, %v, %v, plugins %v", router, read.ServicesError, read.ObjectError, read.RoutesError,
				read.RouterNames())
		}
	}
}

func TestLoadUsesTheTrialProxies(t *testing.T) {
	t.Parallel()
	parameters := setup(facts.HTTPRouter)
	pod, err := parameters.LoadPod()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(pod.Content)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{
		`"example.com/demo:1"`, `"--address=kedify-proxy.try-1:8080"`, `"--rate=50"`,
		`"--host=http-canary-try.example.com"`,
	} {
		if !strings.Contains(string(text), word) {
			t.Errorf("%s is missing: %s", word, text)
		}
	}
}

// TestTally: requests count after 20 consecutive successful responses, and then every failure counts.
func TestTally(t *testing.T) {
	t.Parallel()
	var tally try.Tally
	lines := strings.Repeat("1 1000 300 blue\n", 19) + "2 1000 300 error: connection refused\n" +
		strings.Repeat("3 1000 300 blue\n", 19)
	read := func(text string) {
		if err := tally.Read(strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	if read(lines); tally.IsWarm() {
		t.Error("requests count after 19 consecutive successful responses")
	}
	if read("4 1001 300 blue\n"); !tally.IsWarm() {
		t.Error("requests do not count after 20")
	}
	read("a line of another format\n5 1999 300 blue\n6 2000 300 green\n7 2001 300 blue\n8 2002 300 error: 503 " +
		"Service Unavailable: no way\n9 2003 300 green\n")
	if hits, all := tally.Count(2000, "green"); hits != 2 || all != 3 {
		t.Errorf("%d of %d, want 2 of 3", hits, all)
	}
	requests, failures := tally.Totals()
	if diff := cmp.Diff(map[string]int{"503 Service Unavailable: no way": 1}, failures); requests != 5 || diff != "" {
		t.Errorf("%d requests; failures (-want +got):\n%s", requests, diff)
	}
}

func TestAgrees(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		hits, all, percent int
		want               bool
	}{
		{208, 1000, 20, true},
		{200, 1000, 20, true},
		{250, 1000, 20, true},
		{260, 1000, 20, false},
		{140, 1000, 20, false},
		{0, 1000, 20, false},
		{500, 1000, 20, false},
		{0, 0, 20, false},
		{1000, 1000, 99, true},
	} {
		if got := try.Agrees(test.hits, test.all, test.percent); got != test.want {
			t.Errorf("%d of %d for %d %%: %v", test.hits, test.all, test.percent, got)
		}
	}
}
