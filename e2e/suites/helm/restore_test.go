package helm

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/e2e/pages"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
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
	shop := e.deployShop(t)
	before := e.inventory(t)
	// kubectl create, which restores, would change the annotation of kubectl apply.
	shop.Do(t, "annotate", "ingress", "--all", "kubectl.kubernetes.io/last-applied-configuration-")
	shop.before = shop.ingresses(t)
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

// fields are the fields of an object or of a part of it.
type fields map[string]any

// in returns a part of an object; nil if it has none of this name.
func (f fields) in(names ...string) fields {
	for _, name := range names {
		f, _ = f[name].(map[string]any)
	}
	return f
}

// text returns a field; empty if there is none.
func (f fields) text(name string) string {
	value, _ := f[name].(string)
	return value
}

// backup is the objects of a backup, by kind.
type backup map[string][]fields

// save returns the objects that docs/how-to/backup.md names, as backup programs restore them: without status, and
// without what the API server sets. It leaves out what the page leaves out.
func (e *environment) save(t *testing.T) backup {
	t.Helper()
	saved := backup{}
	var replicaSets []fields
	for _, namespace := range []string{demo, shopNamespace} {
		saved.add(e.list(t, "get", "namespaces", "--field-selector", "metadata.name="+namespace, "-o", "json"))
		saved.add(e.list(t, "get", "-n", namespace, "-o", "json",
			"configmaps,secrets,services,deployments,rollouts,scaledobjects,httpscaledobjects,ingresses"))
		replicaSets = append(replicaSets, e.list(t, "get", "replicasets", "-n", namespace, "-o", "json")...)
	}
	for _, rollout := range saved["Rollout"] {
		setStableImages(t, rollout, replicaSets)
	}
	for _, kind := range []string{
		"Namespace", "Service", "Deployment", "Rollout", "ScaledObject", "HTTPScaledObject", "Ingress",
	} {
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

// list returns the objects of a list that kubectl prints.
func (e *environment) list(t *testing.T, args ...string) []fields {
	t.Helper()
	var list struct {
		Items []fields `json:"items"`
	}
	if err := json.Unmarshal([]byte(e.kubectl("").Do(t, args...)), &list); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// add adds the objects that no component creates again.
func (b backup) add(objects []fields) {
	for _, o := range objects {
		metadata := o.in("metadata")
		isCreated := metadata.in("labels").text("app.kubernetes.io/managed-by") == "kedify-http-agent" ||
			metadata.text("name") == "kube-root-ca.crt" || metadata["ownerReferences"] != nil
		if kind := o.text("kind"); !isCreated {
			b[kind] = append(b[kind], o)
		}
	}
}

// setStableImages replaces the containers of a Rollout by those of its stable ReplicaSet.
func setStableImages(t *testing.T, rollout fields, replicaSets []fields) {
	t.Helper()
	stable := rollout.in("status").text("stableRS")
	if stable == "" {
		t.Fatalf("the Rollout has no status.stableRS: %v", rollout)
	}
	for _, candidate := range replicaSets {
		metadata := candidate.in("metadata")
		if metadata.text("namespace") == rollout.in("metadata").text("namespace") &&
			metadata.in("labels").text("rollouts-pod-template-hash") == stable {
			pod := []string{"spec", "template", "spec"}
			rollout.in(pod...)["containers"] = candidate.in(pod...)["containers"]
			return
		}
	}
	t.Fatalf("there is no ReplicaSet %s", stable)
}

// removeServerFields removes what the API server sets.
func removeServerFields(o fields) {
	delete(o, "status")
	for _, name := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"} {
		delete(o.in("metadata"), name)
	}
	if o.text("kind") == "Service" {
		delete(o.in("spec"), "clusterIP")
		delete(o.in("spec"), "clusterIPs")
	}
}

// lose deletes the applications, the release, the CRD and Argo Rollouts.
func (e *environment) lose(t *testing.T) {
	t.Helper()
	e.kubectl("").Do(t, "delete", "namespace", demo, shopNamespace)
	e.run(t, testbed.Block(t, e.chart, "Uninstall", "sh", 1))
	e.run(t, testbed.Block(t, e.chart, "Uninstall", "sh", 2))
	e.run(t, testbed.Block(t, e.howTo, "Remove the CRD", "sh", 0))
	e.resetRollouts(t)
}

// restore follows the steps of the page.
func (e *environment) restore(t *testing.T, page pages.Pages, saved backup) {
	t.Helper()
	e.create(t, saved, "Namespace", "ConfigMap", "Secret")
	e.installChart(t)
	e.run(t, testbed.Block(t, page, "Restore", "", 0))
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
	output, checks := "", testbed.Block(t, page, "Restore", "", 1)
	await.Described(t, "doctor and cleanup to find nothing", func() bool {
		var err error
		output, err = e.try(t.Context(), e.tag, checks)
		return err == nil && strings.Contains(output, "No problems found.") && strings.Contains(output, "No leftovers found.")
	}, func() string { return output })
}

// create creates the objects of a backup.
func (e *environment) create(t *testing.T, saved backup, kinds ...string) {
	t.Helper()
	var documents []string
	for _, kind := range kinds {
		for _, o := range saved[kind] {
			raw, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			documents = append(documents, string(raw))
		}
	}
	const file = "restore.yaml"
	e.writeFile(t, file, strings.Join(documents, "\n---\n"))
	t.Log(fmt.Sprint(kinds), e.kubectl("").Do(t, "create", "-f", filepath.Join(e.folder, file)))
}
