package helm

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/e2e/pages"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// TestRestore follows docs/how-to/backup.md. It saves two applications, one of them in the middle of a canary, deletes
// them and everything that was installed, and restores them.
func TestRestore(t *testing.T) {
	e := launch(t)
	page, err := pages.Read(filepath.Join(e.Repo, "docs", "how-to"), "backup.md")
	if err != nil {
		t.Fatal(err)
	}
	before := e.inventory(t)
	shop := e.deployShop(t)
	var saved backup
	step(t, "applications with wired Ingresses and a canary at 20 %", func(t *testing.T) {
		t.Helper()
		e.installChart(t)
		e.deployDemo(t)
		shop.wire(t)
		e.startCanary(t)
		saved = e.save(t)
	})
	step(t, "all of it is deleted", e.lose)
	step(t, "the applications are restored", func(t *testing.T) {
		t.Helper()
		e.restore(t, page, saved)
	})
	step(t, "another canary at a measured 20 %", func(t *testing.T) {
		t.Helper()
		e.startCanary(t)
		e.measure(t)
	})
	step(t, "the chart is uninstalled", e.uninstall)
	step(t, "the Ingresses are as before", shop.checkRestored)
	step(t, "nothing remains", func(t *testing.T) {
		t.Helper()
		e.checkNothingRemains(t, before)
	})
}

// backup is the objects of a backup, by kind.
type backup map[string][]unstructured.Unstructured

// save returns the objects that docs/how-to/backup.md names, as backup programs restore them: without status, and
// without what the API server sets. It leaves out what the page leaves out.
func (e *environment) save(t *testing.T) backup {
	t.Helper()
	saved := backup{}
	var pods []unstructured.Unstructured
	for _, namespace := range []string{demo, shopNamespace} {
		saved.add(e.list(t, "get", "namespace", namespace, "-o", "json"))
		saved.add(e.list(t, "get", "configmaps,secrets,services,deployments,rollouts,scaledobjects,httpscaledobjects,ingresses",
			"-n", namespace, "-o", "json"))
		pods = append(pods, e.list(t, "get", "replicasets", "-n", namespace, "-o", "json")...)
	}
	for _, rollout := range saved["Rollout"] {
		setStableImages(t, rollout, pods)
	}
	for _, kind := range []string{"Namespace", "Service", "Deployment", "Rollout", "ScaledObject", "HTTPScaledObject", "Ingress"} {
		if len(saved[kind]) == 0 {
			t.Fatalf("the backup has no %s, only %v", kind, slices.Sorted(maps.Keys(saved)))
		}
	}
	for _, objects := range saved {
		for _, o := range objects {
			removeServerFields(o)
		}
	}
	return saved
}

// list returns the objects of the output of kubectl, which is a List or one object.
func (e *environment) list(t *testing.T, args ...string) []unstructured.Unstructured {
	t.Helper()
	var o unstructured.Unstructured
	if err := json.Unmarshal([]byte(e.kubectl("").Do(t, args...)), &o); err != nil {
		t.Fatal(err)
	}
	if !o.IsList() {
		return []unstructured.Unstructured{o}
	}
	all, err := o.ToList()
	if err != nil {
		t.Fatal(err)
	}
	return all.Items
}

// add adds the objects that no component creates again.
func (b backup) add(objects []unstructured.Unstructured) {
	for _, o := range objects {
		isCreated := o.GetLabels()["app.kubernetes.io/managed-by"] == "kedify-http-agent" ||
			o.GetName() == "kube-root-ca.crt" || len(o.GetOwnerReferences()) > 0
		if !isCreated {
			b[o.GetKind()] = append(b[o.GetKind()], o)
		}
	}
}

// setStableImages replaces the images of a Rollout by those of its stable ReplicaSet.
func setStableImages(t *testing.T, rollout unstructured.Unstructured, replicaSets []unstructured.Unstructured) {
	t.Helper()
	containers := []string{"spec", "template", "spec", "containers"}
	stable, _, err := unstructured.NestedString(rollout.Object, "status", "stableRS")
	if err != nil || stable == "" {
		t.Fatalf("Rollout %s has no status.stableRS: %v", rollout.GetName(), err)
	}
	for _, candidate := range replicaSets {
		if candidate.GetNamespace() != rollout.GetNamespace() || candidate.GetLabels()["rollouts-pod-template-hash"] != stable {
			continue
		}
		images, _, err := unstructured.NestedSlice(candidate.Object, containers...)
		if err == nil {
			err = unstructured.SetNestedSlice(rollout.Object, images, containers...)
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("Rollout %s has no ReplicaSet %s", rollout.GetName(), stable)
}

// removeServerFields removes what the API server sets.
func removeServerFields(o unstructured.Unstructured) {
	unstructured.RemoveNestedField(o.Object, "status")
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	if o.GetKind() == "Service" {
		for _, field := range []string{"clusterIP", "clusterIPs"} {
			unstructured.RemoveNestedField(o.Object, "spec", field)
		}
	}
}

// lose deletes the applications, the release, the CRD and Argo Rollouts.
func (e *environment) lose(t *testing.T) {
	t.Helper()
	e.kubectl("").Do(t, "delete", "namespace", demo, shopNamespace)
	e.run(t, block(t, e.chart, "Uninstall", 1))
	e.run(t, block(t, e.chart, "Uninstall", 2))
	e.run(t, block(t, e.howTo, "Remove the CRD", 0))
	e.resetRollouts(t)
}

// restore follows the steps of the page.
func (e *environment) restore(t *testing.T, page pages.Pages, saved backup) {
	t.Helper()
	check := func(n int) string {
		t.Helper()
		text, err := page.Block("Restore", "", n)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	e.create(t, saved, "Namespace", "ConfigMap", "Secret")
	e.installChart(t)
	e.run(t, check(0))
	e.create(t, saved, "Service", "Deployment", "Rollout", "ScaledObject", "HTTPScaledObject")
	k := e.kubectl(demo)
	k.Do(t, "wait", "rollout/rollouts-demo", "--for=jsonpath={.status.phase}=Healthy")
	e.create(t, saved, "Ingress")
	k.Do(t, "rollout", "status", "deployment/kedify-proxy")
	answer := ""
	await.Described(t, "an answer of the restored application", func() bool {
		var isStable bool
		answer, isStable = e.request(t)
		return isStable
	}, func() string { return answer })
	output := ""
	await.Described(t, "doctor and cleanup to find nothing", func() bool {
		var err error
		output, err = e.try(t.Context(), e.tag, check(1))
		return err == nil && strings.Contains(output, "No problems found.") && strings.Contains(output, "No leftovers found.")
	}, func() string { return output })
}

// create creates the objects of a backup.
func (e *environment) create(t *testing.T, saved backup, kinds ...string) {
	t.Helper()
	var documents []string
	for _, kind := range kinds {
		for _, o := range saved[kind] {
			raw, err := json.Marshal(o.Object)
			if err != nil {
				t.Fatal(err)
			}
			documents = append(documents, string(raw))
		}
	}
	file := filepath.Join(e.folder, "restore.yaml")
	if err := os.WriteFile(file, []byte(strings.Join(documents, "\n---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Log(fmt.Sprint(kinds), e.kubectl("").Do(t, "create", "-f", file))
}
