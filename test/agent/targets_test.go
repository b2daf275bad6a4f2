package agent_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// The ScaledObjects that users have.
const (
	// readmeScaledObject is that of the plugin's README: without a minimum, KEDA's own count.
	readmeScaledObject = `
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: myapp
spec:
  scaleTargetRef:
    apiVersion: argoproj.io/v1alpha1
    kind: Rollout
    name: myapp
  triggers:
    - type: kedify-http
      metadata:
        hosts: myapp.example.com
        port: "80"
        scalingMetric: requestRate
        targetValue: "5"
        trafficAutowire: "ingress"
`
	// sampleScaledObject has the bounds, the cool-down and the target of the public sample.
	sampleScaledObject = `
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: myapp
spec:
  scaleTargetRef:
    apiVersion: argoproj.io/v1alpha1
    kind: Rollout
    name: myapp
  cooldownPeriod: 5
  minReplicaCount: 2
  maxReplicaCount: 5
  triggers:
    - type: kedify-http
      metadata:
        hosts: myapp.example.com
        port: "80"
        scalingMetric: requestRate
        targetValue: "1000"
        trafficAutowire: "ingress"
`
)

// rollout is a Rollout with a strategy and where it has its Pods from.
func rollout(strategy, pods string) string {
	return `{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: myapp}, spec: {` + pods + `, strategy: ` +
		strategy + `}}`
}

// scaling is a ScaledObject of a workload.
func scaling(target, metadata string) string {
	return `{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: myapp}, spec: {scaleTargetRef: ` + target + `,
		triggers: [{type: kedify-http, metadata: ` + metadata + `}]}}`
}

const (
	canary   = `{canary: {stableService: myapp-stable, canaryService: myapp-canary}}`
	template = `selector: {matchLabels: {app: myapp}}`
)

// TestTargets has each kind of target, and the ScaledObjects that users have: where requests go, what is
// scaled, and between which bounds.
func TestTargets(t *testing.T) {
	t.Parallel()
	const aRollout = `{apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: myapp}`
	tests := map[string]struct {
		objects []string
		want    string // the target and the bounds in the HTTPScaledObject
	}{
		"the plugins readme": {
			[]string{rollout(canary, template), readmeScaledObject},
			`{scaleTargetRef: {apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: myapp, service: myapp-stable, port: 80},
				replicas: {min: 0, max: 100}, scalingMetric: {requestRate: {targetValue: 5, window: 1m, granularity: 1s}}}`,
		},
		"the public sample": {
			[]string{rollout(canary, template), sampleScaledObject},
			`{scaleTargetRef: {apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: myapp, service: myapp-stable, port: 80},
				replicas: {min: 2, max: 5}, scalingMetric: {requestRate: {targetValue: 1000, window: 1m, granularity: 1s}}}`,
		},
		"pods of a deployment": {
			[]string{
				rollout(canary, `workloadRef: {apiVersion: apps/v1, kind: Deployment, name: myapp}`),
				scaling(aRollout, `{hosts: myapp.example.com, port: "80"}`),
			},
			`{scaleTargetRef: {apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: myapp, service: myapp-stable, port: 80},
				replicas: {min: 0, max: 100}, scalingMetric: {requestRate: {targetValue: 100, window: 1m, granularity: 1s}}}`,
		},
		"blue green": {
			[]string{
				rollout(`{blueGreen: {activeService: myapp-active, previewService: myapp-preview}}`, template),
				scaling(aRollout, `{hosts: myapp.example.com, port: "80"}`),
			},
			`{scaleTargetRef: {apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: myapp, service: myapp-active, port: 80},
				replicas: {min: 0, max: 100}, scalingMetric: {requestRate: {targetValue: 100, window: 1m, granularity: 1s}}}`,
		},
		"a deployment": {
			[]string{scaling(`{name: myapp}`, `{hosts: myapp.example.com, port: "80", service: web}`)},
			`{scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: myapp, service: web, port: 80},
				replicas: {min: 0, max: 100}, scalingMetric: {requestRate: {targetValue: 100, window: 1m, granularity: 1s}}}`,
		},
		"a stateful set": {
			[]string{
				scaling(`{apiVersion: apps/v1, kind: StatefulSet, name: myapp}`,
					`{hosts: myapp.example.com, portName: http, service: web, scalingMetric: concurrency}`),
			},
			`{scaleTargetRef: {apiVersion: apps/v1, kind: StatefulSet, name: myapp, service: web, portName: http},
				replicas: {min: 0, max: 100}, scalingMetric: {concurrency: {targetValue: 100}}}`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			team := namespaceOf(t, "target", name)
			apply(t, team, test.objects...)
			var want httpv1alpha1.HTTPScaledObjectSpec
			if err := yaml.UnmarshalStrict([]byte(test.want), &want); err != nil {
				t.Fatal(err)
			}
			want.Hosts = []string{"myapp.example.com"}
			if diff := cmp.Diff(want, awaitObject(t, team, "myapp", "made", there).Spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}
