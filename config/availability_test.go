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

// component contains the manifests of a component that affect the availability of its Pods.
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
		least, unavailable := c.budget.Spec.MinAvailable, c.budget.Spec.MaxUnavailable
		isOneAtATime := unavailable != nil && unavailable.IntValue() == 1 ||
			least != nil && int32(least.IntValue()) == *c.deployment.Spec.Replicas-1 && least.IntValue() > 0
		if !isOneAtATime {
			t.Errorf("%s: %d replicas, minAvailable %v, maxUnavailable %v, want one disruption at a time", name,
				*c.deployment.Spec.Replicas, least, unavailable)
		}
	}
}

// TestMemoryLimits: GOMEMLIMIT is at most four fifths of the container's memory limit, because Go does not count all
// memory.
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
}

// TestReplicas: components without which requests are not routed as configured have two replicas.
func TestReplicas(t *testing.T) {
	t.Parallel()
	all := components(t)
	for _, name := range []string{"agent", "interceptor", "scaler"} {
		if got := *all[name].deployment.Spec.Replicas; got != 2 {
			t.Errorf("%s: %d replicas, want 2", name, got)
		}
	}
}
