package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

// component is what the manifests of a component define about its Pods.
type component struct {
	deployment appsv1.Deployment
	budget     policyv1.PodDisruptionBudget
}

// components returns the components by the names of their folders.
func components(t *testing.T) map[string]component {
	t.Helper()
	all := map[string]component{}
	for _, folder := range []string{"agent", "interceptor", "kedify-proxy", "scaler"} {
		var c component
		files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(filepath.Clean(file))
			if err != nil {
				t.Fatal(err)
			}
			for document := range strings.SplitSeq(string(text), "\n---\n") {
				c.read(t, []byte(document))
			}
		}
		all[folder] = c
	}
	return all
}

// read reads a Deployment or a PodDisruptionBudget, and ignores other objects.
func (c *component) read(t *testing.T, document []byte) {
	t.Helper()
	var kind struct{ Kind string }
	if err := yaml.Unmarshal(document, &kind); err != nil {
		t.Fatal(err)
	}
	var object any
	switch kind.Kind {
	case "Deployment":
		object = &c.deployment
	case "PodDisruptionBudget":
		object = &c.budget
	default:
		return
	}
	if err := yaml.UnmarshalStrict(document, object); err != nil {
		t.Fatal(err)
	}
}

// TestAvailability: the replicas of each component prefer different nodes, are drained one at a time, and are replaced
// soon after a node has failed. A single replica does not block the drain of its node.
func TestAvailability(t *testing.T) {
	t.Parallel()
	for name, c := range components(t) {
		selector, pod := c.deployment.Spec.Selector, c.deployment.Spec.Template.Spec
		wantSpread := []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: selector,
		}}
		if diff := cmp.Diff(wantSpread, pod.TopologySpreadConstraints); diff != "" {
			t.Errorf("%s: spread (-want +got):\n%s", name, diff)
		}
		tolerated := map[string]int64{}
		for _, toleration := range pod.Tolerations {
			if toleration.Operator == corev1.TolerationOpExists && toleration.Effect == corev1.TaintEffectNoExecute {
				tolerated[toleration.Key] = *toleration.TolerationSeconds
			}
		}
		wantTolerated := map[string]int64{corev1.TaintNodeNotReady: 30, corev1.TaintNodeUnreachable: 30}
		if diff := cmp.Diff(wantTolerated, tolerated); diff != "" {
			t.Errorf("%s: seconds on a failed node (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(selector, c.budget.Spec.Selector); diff != "" {
			t.Errorf("%s: Pods of the PodDisruptionBudget (-want +got):\n%s", name, diff)
		}
		lowest, unavailable := c.budget.Spec.MinAvailable, c.budget.Spec.MaxUnavailable
		isOneAtATime := unavailable != nil && unavailable.IntValue() == 1 ||
			lowest != nil && int32(lowest.IntValue()) == *c.deployment.Spec.Replicas-1 && lowest.IntValue() > 0
		if !isOneAtATime {
			t.Errorf("%s: %d replicas, of which %v are available and %v are not", name, *c.deployment.Spec.Replicas,
				lowest, unavailable)
		}
	}
}

// TestMemoryLimits: Go's memory limit leaves a fifth of the container's for what Go does not count.
func TestMemoryLimits(t *testing.T) {
	t.Parallel()
	for name, c := range components(t) {
		container := c.deployment.Spec.Template.Spec.Containers[0]
		limit := container.Resources.Limits.Memory()
		for _, variable := range container.Env {
			if variable.Name != "GOMEMLIMIT" {
				continue
			}
			soft := resource.MustParse(strings.TrimSuffix(variable.Value, "B"))
			if soft.Value() > limit.Value()/5*4 {
				t.Errorf("%s: GOMEMLIMIT is %s, and the limit %s", name, variable.Value, limit)
			}
		}
	}
	const measured = 708_000_000 // docs/explanation/sizing.md: 50 proxies connect to 10,000 objects
	limit := components(t)["interceptor"].deployment.Spec.Template.Spec.Containers[0].Resources.Limits.Memory()
	if limit.Value() < measured {
		t.Errorf("interceptor: the limit %s is below the measured %d bytes", limit, measured)
	}
}

// TestOverlayOfHighAvailability: the overlay names the Deployment of the interceptor.
func TestOverlayOfHighAvailability(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("high-availability/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var overlay struct {
		Resources []string
		Replicas  []struct {
			Name  string
			Count int
		}
	}
	if err := yaml.Unmarshal(text, &overlay); err != nil {
		t.Fatal(err)
	}
	name := components(t)["interceptor"].deployment.Name
	if len(overlay.Replicas) != 1 || overlay.Replicas[0].Name != name || overlay.Replicas[0].Count < 2 {
		t.Errorf("replicas: %+v, want those of %s", overlay.Replicas, name)
	}
	for _, base := range overlay.Resources {
		if _, err := os.Stat(filepath.Join("high-availability", base, "kustomization.yaml")); err != nil {
			t.Error(err)
		}
	}
}
