package helm

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// loadRate is the number of requests per second while the chart is uninstalled.
const loadRate = 50

// uninstall follows the README of the chart, with requests to the page's application. None may fail.
func (e *environment) uninstall(t *testing.T) {
	t.Helper()
	k := e.kubectl(demo)
	// Step 1: canaries end, and no application is scaled to zero.
	k.Argo(t, "promote", "rollouts-demo", "--full")
	k.Do(t, "patch", "scaledobject/rollouts-demo", "--type=merge", "-p", `{"spec":{"minReplicaCount":1}}`)
	k.Do(t, "wait", "rollout/rollouts-demo", "--for=jsonpath={.status.phase}=Healthy")
	await.True(t, "a Pod of the application", func() bool {
		return k.Do(t, "get", "rollout/rollouts-demo", "-o", "jsonpath={.status.availableReplicas}") != ""
	})
	client := e.startLoad(t, loadRate)
	defer stopLoad(t, client)
	// Step 2: the agent restores the Ingresses.
	e.run(t, testbed.Block(t, e.chart, "Uninstall", "sh", 0))
	if backend := k.Do(t, "get", "ingress/rollouts-demo", "-o",
		"jsonpath={.spec.rules[*].http.paths[*].backend.service.name}"); backend != "rollouts-demo-stable" {
		t.Errorf("the Ingress of the application has the backend %s", backend)
	}
	// Step 3: the plugins, the release, and the proxies.
	e.run(t, testbed.Block(t, e.howTo, "Remove the plugins", "sh", 0))
	e.writeFile(t, "plugins.yaml", "[]\n")
	e.run(t, testbed.Block(t, e.howTo, "Remove the plugins", "sh", 1))
	e.run(t, testbed.Block(t, e.chart, "Uninstall", "sh", 1))
	e.run(t, testbed.Block(t, e.howTo, "Removal", "sh", 0))
	// Steps 4 and 5: what the components have created, and the CRD.
	e.run(t, testbed.Block(t, e.chart, "Uninstall", "sh", 2))
	e.run(t, testbed.Block(t, e.howTo, "Remove the CRD", "sh", 0))
}

// object is the part of an object that shows whose it is.
type object struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Namespace   string            `json:"namespace"`
		Name        string            `json:"name"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
		Finalizers  []string          `json:"finalizers"`
	} `json:"metadata"`
}

// String returns the kind and the name.
func (o object) String() string {
	return fmt.Sprintf("%s %s/%s", o.Kind, o.Metadata.Namespace, o.Metadata.Name)
}

// marks returns the labels, annotations and finalizers that name this project.
func (o object) marks() []string {
	marks := slices.Clone(o.Metadata.Finalizers)
	for key, value := range o.Metadata.Labels {
		marks = append(marks, "label "+key+"="+value)
	}
	for key, value := range o.Metadata.Annotations {
		if key != "kubectl.kubernetes.io/last-applied-configuration" { // the user's own text
			marks = append(marks, "annotation "+key+"="+value)
		}
	}
	marks = slices.DeleteFunc(marks, func(mark string) bool { return !ours().MatchString(mark) })
	slices.Sort(marks)
	return marks
}

// ours matches the names of this project's objects.
func ours() *regexp.Regexp {
	return regexp.MustCompile(`(?i)kedify|http-add-on|keda-add-ons|argo-rollouts-gateway-api|http\.keda\.sh|httpscaledobject`)
}

// inventory returns all objects of the cluster, by their references.
func (e *environment) inventory(t *testing.T) map[string]object {
	t.Helper()
	out := e.run(t, `kubectl get -A -o json "$(kubectl api-resources --verbs=list -o name |
  grep -v -e '^events' -e '\.metrics\.k8s\.io$' | paste -sd,)"`)
	var list struct {
		Items []object `json:"items"`
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatal(err)
	}
	all := map[string]object{}
	for _, o := range list.Items {
		all[o.String()] = o
	}
	if len(all) < 50 {
		t.Fatalf("the cluster has only %d objects", len(all))
	}
	return all
}

// checkNothingRemains checks that the cluster has the objects of an earlier inventory, and no new marks of this project
// on them. Some dependents are deleted a moment after their owners.
func (e *environment) checkNothingRemains(t *testing.T, before map[string]object) {
	t.Helper()
	var left []string
	if err := await.Until(t.Context(), "nothing to be left", func() bool {
		left = remaining(before, e.inventory(t))
		return len(left) == 0
	}, func() string { return strings.Join(left, "\n") }); err != nil {
		t.Error(err)
	}
}

// remaining returns the new objects and marks in an inventory. The objects of applications stay, but none of them may
// belong to this project.
func remaining(before, after map[string]object) []string {
	var left []string
	for _, name := range slices.Sorted(maps.Keys(after)) {
		o := after[name]
		earlier, existed := before[name]
		isOfApplication := slices.Contains([]string{demo, shopNamespace}, o.Metadata.Namespace) ||
			o.Kind == "Namespace" && o.Metadata.Name == demo
		switch {
		case existed, isKept(o), isVolatile(o):
		case !isOfApplication, ours().MatchString(o.Metadata.Name):
			left = append(left, name)
		}
		if isKept(o) {
			continue
		}
		for _, mark := range o.marks() {
			if !slices.Contains(earlier.marks(), mark) {
				left = append(left, name+" has "+mark)
			}
		}
	}
	return left
}

// isKept reports whether the README states that helm uninstall keeps the object.
func isKept(o object) bool { return o.String() == "ConfigMap argo-rollouts/argo-rollouts-config" }

// isVolatile reports whether the names of objects of this kind are generated. Those of this project's Pods are not
// volatile.
func isVolatile(o object) bool {
	return slices.Contains([]string{"Pod", "ReplicaSet", "EndpointSlice", "Endpoints", "IPAddress"}, o.Kind) &&
		!ours().MatchString(o.Metadata.Name)
}

// TestRemaining: what remains of an installation is found.
func TestRemaining(t *testing.T) {
	const text = `[
		{"kind": "Lease", "metadata": {"namespace": "keda", "name": "kedify-http-agent"}},
		{"kind": "ClusterRole", "metadata": {"name": "unnamed"}},
		{"kind": "Pod", "metadata": {"namespace": "keda", "name": "keda-operator-1"}},
		{"kind": "Pod", "metadata": {"namespace": "keda", "name": "kedify-http-agent-1"}},
		{"kind": "Ingress", "metadata": {"namespace": "shop", "name": "web", "finalizers": ["http.kedify.io/restore"]}},
		{"kind": "Service", "metadata": {"namespace": "shop", "name": "new"}},
		{"kind": "Deployment", "metadata": {"namespace": "shop", "name": "kedify-proxy"}},
		{"kind": "Secret", "metadata": {"namespace": "keda", "name": "same", "labels": {"app.kubernetes.io/part-of": "kedify-http"}}},
		{"kind": "ConfigMap", "metadata": {"namespace": "argo-rollouts", "name": "argo-rollouts-config"}}]`
	var objects []object
	if err := json.Unmarshal([]byte(text), &objects); err != nil {
		t.Fatal(err)
	}
	before, after := map[string]object{"Secret keda/same": objects[7], "Ingress shop/web": {}}, map[string]object{}
	for _, o := range objects {
		after[o.String()] = o
	}
	want := []string{
		"ClusterRole /unnamed", "Deployment shop/kedify-proxy", "Ingress shop/web has http.kedify.io/restore",
		"Lease keda/kedify-http-agent", "Pod keda/kedify-http-agent-1",
	}
	if got := remaining(before, after); !slices.Equal(got, want) {
		t.Errorf("remaining objects %q, want %q", got, want)
	}
}
