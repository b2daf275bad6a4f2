package testbed

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/e2e/inside"
	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
	"github.com/kedify/argo-rollouts-plugin/e2e/trace"
)

// The names of the guide's objects.
const (
	// Namespace is the namespace of the test. The demo may run in the guide's namespace.
	Namespace = "canary"
	App       = "rollouts-demo"
	// Host is the guide's host. host replaces it in Namespace.
	Host          = "rollouts-demo.example.com"
	host          = "canary.example.com"
	stable        = "rollouts-demo-stable"
	canary        = "rollouts-demo-canary"
	clusterPrefix = Namespace + "/" + App + "/"
)

// RolloutPath is the API path of the guide's Rollout.
const RolloutPath = "/apis/argoproj.io/v1alpha1/namespaces/" + Namespace + "/rollouts/" + App

// annotationPair returns the names of the two sides in the annotation, envoyPair those in Envoy's routes.
func annotationPair() trace.Pair { return trace.Pair{Stable: stable, Canary: canary} }

func envoyPair() trace.Pair {
	return trace.Pair{Stable: clusterPrefix + stable, Canary: clusterPrefix + canary}
}

// Proxy is a Pod of kedify-proxy.
type Proxy struct {
	// Name is the name of the Pod.
	Name string
	// HTTP is the address of the HTTP port inside the cluster. Requests to it reach exactly this proxy, unlike requests to
	// the Service.
	HTTP netip.AddrPort
}

// AdminAddress returns the address of Envoy's admin interface within the Pod of each proxy. AdminTransport connects to
// it.
func AdminAddress() string { return adminAddress().String() }

// adminAddress is the address of the admin interface in config/kedify-proxy/configmap.yaml.
func adminAddress() netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 9902)
}

// AdminTransport returns a transport to the admin interface of a proxy. It connects from within the Pod.
func (b *Testbed) AdminTransport(p Proxy) *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return b.Inside.DialPod(ctx, "envoy", p.Name, adminAddress())
	}}
}

// Step is an element of spec.strategy.canary.steps of a Rollout.
type Step map[string]any

// SetWeight returns a step that sets the canary's weight in percent.
func SetWeight(weight int) Step { return Step{"setWeight": weight} }

// Pause returns a step that waits for a promotion.
func Pause() Step { return Step{"pause": struct{}{}} }

// Pods returns a step that sets the number of canary Pods independently of the weight.
func Pods(n int) Step { return Step{"setCanaryScale": map[string]int{"replicas": n}} }

// Deploy applies the guide's objects with two proxies and starts the recording. It merges proxyPatch into the container
// of the proxies' Deployment. The objects are deleted when the test ends.
func (b *Testbed) Deploy(t *testing.T, proxyPatch map[string]any) {
	t.Helper()
	ctx := t.Context()
	container := map[string]any{"name": "envoy"}
	maps.Copy(container, proxyPatch)
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{
		"replicas": 2, "template": map[string]any{"spec": map[string]any{"containers": []any{container}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	example := Example(t, b.Repo, host, "manifests.yaml", "httpscaledobject.yaml")
	Kubectl{Cluster: b.Cluster}.CreateNamespace(t, Namespace)
	for _, args := range [][]string{
		{"-n", Namespace, "apply", "-f", LimitRangeFile(b.Repo)},
		{"-n", Namespace, "apply", "-k", filepath.Join(b.Repo, "config", "kedify-proxy")},
		{"-n", Namespace, "patch", "deployment", "kedify-proxy", "-p", string(patch)},
		{"-n", Namespace, "apply", "-f", example[0], "-f", example[1]},
		{"-n", Namespace, "rollout", "status", "deployment/kedify-proxy", WaitTimeout()},
	} {
		if _, err := b.Kubectl(ctx, append([]string{"kubectl"}, args...)...); err != nil {
			t.Fatal(err)
		}
	}
	b.findProxies(t)
	b.observe(t)
	for _, p := range b.Proxies {
		background(t, func(ctx context.Context) error { b.watchEnvoy(ctx, p); return nil })
	}
	if err := b.AwaitHealthy(ctx, 1, 0); err != nil {
		t.Fatal(err)
	}
}

// DeployAutowired applies the guide's objects with its ScaledObject, and starts the recording. It returns when the agent
// has installed the proxies and pointed the Ingress at them. The record follows proxies that are replaced. The objects
// are deleted when the test ends.
func (b *Testbed) DeployAutowired(t *testing.T) {
	t.Helper()
	k := Kubectl{Cluster: b.Cluster, Namespace: Namespace}
	example := Example(t, b.Repo, host, "manifests.yaml", "scaledobject.yaml")
	ReplaceInFile(t, example[1], `targetValue: "5"`, `targetValue: "`+relaxedTarget+`"`)
	k.CreateNamespace(t, Namespace)
	k.Do(t, "apply", "-f", LimitRangeFile(b.Repo))
	k.Do(t, "apply", "-f", example[0], "-f", example[1])
	k.Do(t, "wait", "ingress/"+App,
		"--for=jsonpath={.spec.rules[0].http.paths[0].backend.service.name}=kedify-proxy")
	k.Do(t, "rollout", "status", "deployment/kedify-proxy")
	b.observe(t)
	b.follows = true
	background(t, func(ctx context.Context) error {
		watcher := proxyWatcher{testbed: b, ends: map[string]context.CancelFunc{}}
		watcher.run(ctx)
		return nil
	})
	if err := b.AwaitHealthy(t.Context(), 1, 0); err != nil {
		t.Fatal(err)
	}
}

// relaxedTarget replaces the guide's target, 5 requests per second and Pod. At the load of a test, that target requires
// more Pods than fit on a laptop.
const relaxedTarget = "1000"

// LimitRangeFile returns the file of a LimitRange with default CPU requests. The Pods of the namespace then get their
// part of the CPU on a busy node.
func LimitRangeFile(repo string) string {
	return filepath.Join(repo, "e2e", "testbed", "limitrange.yaml")
}

// observe starts the recording of the objects.
func (b *Testbed) observe(t *testing.T) {
	t.Helper()
	follow := func(group, resource string, receive func(inside.Version)) {
		background(t, func(ctx context.Context) error {
			err := b.Inside.Store().Follow(ctx, inside.CustomResourceKey(group, resource, Namespace, App), receive)
			if err != nil {
				return fmt.Errorf("record the versions of %s: %w", resource, err)
			}
			return nil
		})
	}
	follow("http.keda.sh", "httpscaledobjects", b.Record.addObject)
	follow("argoproj.io", "rollouts", b.Record.addRollout)
}

// Reset ends a running canary in favor of a color, which must be that of the stable version. Then it replaces the steps
// of the Rollout.
func (b *Testbed) Reset(ctx context.Context, color string, steps ...Step) error {
	if err := b.SetImage(ctx, color); err != nil {
		return err
	}
	if err := b.AwaitHealthy(ctx, 1, 0); err != nil {
		return err
	}
	var changed kube.Rollout
	patch := map[string]any{"spec": map[string]any{"strategy": map[string]any{"canary": map[string]any{"steps": steps}}}}
	err := Repeat(ctx, "the Rollout to have other steps",
		func() error { return b.MergePatch(ctx, RolloutPath, patch, &changed) })
	if err != nil {
		return err
	}
	return b.AwaitHealthy(ctx, changed.Metadata.Generation, 0)
}

// AwaitHealthy waits until the Rollout is healthy at this generation or a later one and the canary has this weight.
func (b *Testbed) AwaitHealthy(ctx context.Context, generation int64, weight int) error {
	_, err := b.Await(ctx, "the Rollout to be Healthy", func() bool {
		state := b.Record.Now()
		return state.Rollout.Metadata.Generation >= generation && state.Rollout.Healthy() &&
			state.HasWeight(weight, b.proxies())
	})
	return err
}

// Argo runs a command of kubectl-argo-rollouts on the Rollout, such as "promote".
func (b *Testbed) Argo(ctx context.Context, verb string, rest ...string) error {
	_, err := b.Kubectl(ctx, append([]string{"kubectl", "argo", "rollouts", "-n", Namespace, verb}, rest...)...)
	return err
}

// SetImage starts a canary of a color.
func (b *Testbed) SetImage(ctx context.Context, color string) error {
	return b.Argo(ctx, "set", "image", App, App+"=argoproj/rollouts-demo:"+color)
}

// AwaitPause waits until the Rollout pauses at a step, counted from 0, and the weight is active on all proxies.
func (b *Testbed) AwaitPause(ctx context.Context, step, weight int) error {
	_, err := b.Await(ctx, fmt.Sprintf("the pause of step %d with weight %d active", step, weight), func() bool {
		state := b.Record.Now()
		index := state.Rollout.Status.CurrentStepIndex
		return index != nil && *index == step && state.Rollout.Paused() && state.HasWeight(weight, b.proxies())
	})
	return err
}

// awaitEnd waits until the canary is promoted or aborted: its weight is 0 on all proxies, and the Rollout is Healthy or
// aborted.
func (b *Testbed) awaitEnd(ctx context.Context) error {
	_, err := b.Await(ctx, "the end of the canary", func() bool {
		state := b.Record.Now()
		return state.HasWeight(0, b.proxies()) && (state.Rollout.Healthy() || state.Rollout.Status.Abort)
	})
	return err
}
