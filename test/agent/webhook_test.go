package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// installWebhook installs config/agent/webhook.yaml. It differs in the address, for there are no Services here, and
// holds for namespaces with the label webhook=on only, so that other tests go without.
var installWebhook = sync.OnceValue(func() error {
	return createWebhook("kedify-http-agent", func(webhook map[string]any) {
		webhook["namespaceSelector"] = map[string]any{"matchLabels": map[string]any{"webhook": "on"}}
		webhook["clientConfig"] = map[string]any{"url": webhookURL()}
	})
})

// createWebhook creates a changed copy of config/agent/webhook.yaml.
func createWebhook(name string, change func(webhook map[string]any)) error {
	manifest, err := os.ReadFile(manifests + "agent/webhook.yaml")
	if err != nil {
		return err
	}
	var configuration map[string]any
	if err := yaml.Unmarshal(manifest, &configuration); err != nil {
		return err
	}
	configuration["metadata"].(map[string]any)["name"] = name
	change(configuration["webhooks"].([]any)[0].(map[string]any))
	changed, err := json.Marshal(configuration)
	if err != nil {
		return err
	}
	return shared.admin.Post().AbsPath(webhooks).SetHeader("Content-Type",
		"application/json").Body(changed).Do(background()).Error()
}

// webhookURL returns the address of the agent's webhook.
func webhookURL() string {
	return fmt.Sprintf("https://localhost:%d/mutate-scaledobjects", shared.ports[0])
}

const webhooks = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"

// withWebhook returns a namespace for which the webhook is called, once the agent has set the CA bundle.
func withWebhook(t *testing.T, name string) string {
	t.Helper()
	if err := installWebhook(); err != nil {
		t.Fatal(err)
	}
	apply(t, "", `{apiVersion: v1, kind: Namespace, metadata: {name: `+name+`, labels: {webhook: "on"}}}`)
	await.True(t, "the agent sets the CA bundle", func() bool {
		var found admissionregistrationv1.MutatingWebhookConfiguration
		return get(t, webhooks+"/kedify-http-agent", &found) && len(found.Webhooks[0].ClientConfig.CABundle) > 0
	})
	// The API server has read it once it no longer accepts kedify-http without conversion.
	await.True(t, "the webhook is called", func() bool {
		answer, _, err := send(t, shared.admin.Post().AbsPath(strings.TrimSuffix(scaledObject(name, ""), "/")).
			Param("dryRun", "All"), shop(simple))
		return err == nil && answer.Spec.Triggers[0]["type"] == "external-push"
	})
	return name
}

// send sends a manifest and returns the response.
func send(t *testing.T, request *rest.Request, manifest string) (answer scaled, raw string, err error) {
	t.Helper()
	body, err := yaml.YAMLToJSON([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	result := request.SetHeader("Content-Type", "application/json").Body(body).Do(t.Context())
	if err := result.Error(); err != nil {
		return answer, "", err
	}
	text, err := result.Raw()
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	return answer, string(text), err
}

// mixed is a ScaledObject with everything that must not change.
const mixed = `
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: mixed, annotations: {autoscaling.keda.sh/paused: "false"}}
spec:
  pollingInterval: 7
  cooldownPeriod: 11
  fallback: {failureThreshold: 3, replicas: 2, behavior: currentReplicasIfHigher}
  advanced:
    horizontalPodAutoscalerConfig: {behavior: {scaleDown: {stabilizationWindowSeconds: 60}}}
  scaleTargetRef: {name: shop, envSourceContainerName: app}
  triggers:
    - {type: cpu, metricType: Utilization, metadata: {value: "50"}}
    - type: kedify-http
      metricType: AverageValue
      useCachedMetrics: true
      authenticationRef: {name: auth}
      metadata: {hosts: "a.test,b.test", pathPrefixes: "/", port: "80", service: shop, colour: red}
    - {type: external-push, metadata: {scalerAddress: "other.team:1", hosts: x.test}}
    - {type: prometheus, name: p, metadata: {serverAddress: "http://p", query: "1", threshold: "1"}}
`

// TestWebhook creates and updates ScaledObjects through a real admission call.
func TestWebhook(t *testing.T) {
	t.Parallel()
	team := withWebhook(t, "webhook")
	collection := strings.TrimSuffix(scaledObject(team, ""), "/")

	// The response equals the request, except for the one trigger.
	var want scaled
	if err := yaml.Unmarshal([]byte(mixed), &want); err != nil {
		t.Fatal(err)
	}
	ours := want.Spec.Triggers[1]
	ours["type"] = "external-push"
	metadata := ours["metadata"].(map[string]any)
	metadata["convertedFrom"], metadata["httpScaledObject"], metadata["scalerAddress"] = "kedify-http", "mixed", scaler
	created, raw, err := send(t, shared.admin.Post().AbsPath(collection).Param("fieldManager", "kubectl"), mixed)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Spec.Triggers, created.Spec.Triggers); diff != "" {
		t.Errorf("triggers (-want +got):\n%s", diff)
	}
	if got, sent := specWithoutTriggers(t, raw), specWithoutTriggers(t, mixed); got != sent {
		t.Errorf("the rest of the spec is\n%s, want\n%s", got, sent)
	}

	// An update to what the user has in his file is converted again, and ends where it began. The agent
	// annotates the object meanwhile, so that a version may be outdated when it is sent.
	var updated scaled
	await.True(t, "updated", func() bool {
		var stored scaled
		get(t, scaledObject(team, "mixed"), &stored)
		update := strings.Replace(mixed, "name: mixed,", "name: mixed, resourceVersion: \""+stored.ResourceVersion+"\",", 1)
		updated, _, err = send(t, shared.admin.Put().AbsPath(collection+"/mixed").Param("fieldManager", "kubectl"), update)
		if err != nil && !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
		return err == nil
	})
	if diff := cmp.Diff(want.Spec.Triggers, updated.Spec.Triggers); diff != "" ||
		updated.Generation != created.Generation {
		t.Errorf("generation %d, then %d; triggers (-want +got):\n%s", created.Generation, updated.Generation, diff)
	}
	awaitObject(t, team, "mixed", "made", there)

	// generateName is applied after the webhook: the agent converts the stored object.
	generated, _, err := send(t, shared.admin.Post().AbsPath(collection),
		strings.Replace(shop(simple), "name: shop", "generateName: shop-", 1))
	if err != nil {
		t.Fatal(err)
	}
	awaitObject(t, team, generated.Name, "made", there)
	await.True(t, "converted", func() bool {
		var found scaled
		get(t, scaledObject(team, generated.Name), &found)
		metadata, ok := found.Spec.Triggers[0]["metadata"].(map[string]any)
		return ok && metadata["httpScaledObject"] == generated.Name
	})

	// The schema, not the webhook, rejects invalid objects.
	_, _, err = send(t, shared.admin.Post().AbsPath(collection), shop(`{hosts: shop.test, port: 80}`))
	if err == nil || !strings.Contains(err.Error(), "spec.triggers[0].metadata.port") {
		t.Errorf("a port that is a number is answered with %v", err)
	}
}

// specWithoutTriggers is the spec of a manifest as text.
func specWithoutTriggers(t *testing.T, manifest string) string {
	t.Helper()
	var object struct{ Spec map[string]any }
	if err := yaml.Unmarshal([]byte(manifest), &object); err != nil {
		t.Fatal(err)
	}
	delete(object.Spec, "triggers")
	text, err := yaml.Marshal(object.Spec)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// warnings keeps the warnings of answers.
type warnings struct{ said []string }

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) { w.said = append(w.said, text) }

// TestWarnings has the warnings in the response.
func TestWarnings(t *testing.T) {
	t.Parallel()
	team := withWebhook(t, "warnings")
	said := new(warnings)
	request := shared.admin.Post().AbsPath(strings.TrimSuffix(scaledObject(team, ""), "/")).WarningHandler(said)
	if _, _, err := send(t, request, shop(`{hosts: shop.test, port: http, pathPrefix: /a}`)); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`spec.triggers[0].metadata.port "http": not a number from 1 to 65535: use portName for a name; ` +
			`a new object gets portName http, an existing one keeps its own`,
		`spec.triggers[0].metadata.pathPrefix "/a": unknown key, ignored; did you mean pathPrefixes?`,
	}
	if diff := cmp.Diff(want, said.said); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

// TestConvertStored makes the agent convert stored objects while a user writes at the same time: the triggers have
// another order each time, so that a late patch would change the wrong one.
func TestConvertStored(t *testing.T) {
	t.Parallel()
	team := namespace(t, "stored")
	const rounds = 40
	for round := range rounds {
		sent := rotated(t, round)
		apply(t, team, sent)
		if round%4 != 3 {
			continue // the next write comes before the conversion of this one is done
		}
		want := map[string]map[string]any{}
		for _, each := range triggersOf(t, sent) {
			want[each["name"].(string)] = each
		}
		metadata := want["ours"]["metadata"].(map[string]any)
		want["ours"]["type"] = "external-push"
		metadata["convertedFrom"], metadata["scalerAddress"] = "kedify-http", scaler
		metadata["httpScaledObject"] = "mixed"
		got := map[string]map[string]any{}
		await.True(t, "converted", func() bool {
			var found scaled
			get(t, scaledObject(team, "mixed"), &found)
			for _, each := range found.Spec.Triggers {
				got[each["name"].(string)] = each
			}
			return got["ours"]["type"] == "external-push"
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("round %d: triggers (-want +got):\n%s", round, diff)
		}
	}
}

// rotated is mixed with its triggers named and in another order.
func rotated(t *testing.T, round int) string {
	t.Helper()
	triggers := triggersOf(t, mixed)
	for i, name := range []string{"cpu", "ours", "theirs", "p"} {
		triggers[i]["name"] = name
	}
	triggers[1]["metadata"].(map[string]any)["hosts"] = fmt.Sprintf("h%d.test", round)
	shift := round % len(triggers)
	var object map[string]any
	if err := yaml.Unmarshal([]byte(mixed), &object); err != nil {
		t.Fatal(err)
	}
	object["spec"].(map[string]any)["triggers"] = slices.Concat(triggers[shift:], triggers[:shift])
	text, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// triggersOf returns the triggers of a manifest.
func triggersOf(t *testing.T, manifest string) []map[string]any {
	t.Helper()
	var object scaled
	if err := yaml.Unmarshal([]byte(manifest), &object); err != nil {
		t.Fatal(err)
	}
	return object.Spec.Triggers
}

// TestMatchConditions checks that the API server calls the webhook for kedify-http only: with an unreachable
// address, it rejects only those objects.
func TestMatchConditions(t *testing.T) {
	t.Parallel()
	withWebhook(t, "called")
	var webhook admissionregistrationv1.MutatingWebhookConfiguration
	get(t, webhooks+"/kedify-http-agent", &webhook)
	dead := "https://localhost:1/"
	webhook.Webhooks[0].ClientConfig.URL, webhook.Webhooks[0].ClientConfig.CABundle = &dead, nil
	webhook.Webhooks[0].NamespaceSelector.MatchLabels = map[string]string{"webhook": "dead"}
	text, err := json.Marshal(map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
		"metadata": map[string]any{"name": "dead"}, "webhooks": webhook.Webhooks,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := shared.admin.Post().AbsPath(webhooks).SetHeader("Content-Type", "application/json").Body(text).
		Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	apply(t, "", `{apiVersion: v1, kind: Namespace, metadata: {name: dead, labels: {webhook: dead}}}`)
	collection := strings.TrimSuffix(scaledObject("dead", ""), "/")
	await.True(t, "kedify-http is rejected while the webhook is unreachable", func() bool {
		_, _, err := send(t, shared.admin.Post().AbsPath(collection).Param("dryRun", "All"), shop(simple))
		return err != nil && strings.Contains(err.Error(), "failed calling webhook")
	})
	other := strings.Replace(shop(simple), "kedify-http", "cron", 1)
	if err := apiserver.Apply(t.Context(), shared.admin, "dead", other); err != nil {
		t.Errorf("another trigger is refused: %v", err)
	}
}

// TestArgoCDServerSideDiff sends the dry-run apply of Argo CD with ServerSideDiff and IncludeMutationWebhook, and
// of kubectl diff --server-side. The result equals the stored object.
func TestArgoCDServerSideDiff(t *testing.T) {
	t.Parallel()
	team := withWebhook(t, "argocd")
	git, err := os.ReadFile(example + "scaledobject.yaml")
	if err != nil {
		t.Fatal(err)
	}
	applyFiles(t, team, example+"manifests.yaml")
	wouldBe := func(manifest string, dryRun ...string) (is map[string]any) {
		t.Helper()
		body, err := yaml.YAMLToJSON([]byte(manifest))
		if err != nil {
			t.Fatal(err)
		}
		request := shared.admin.Patch(types.ApplyPatchType).AbsPath(scaledObject(team, "rollouts-demo")).
			Param("fieldManager", "argocd-controller").Param("force", "true").Body(body)
		for _, mode := range dryRun {
			request = request.Param("dryRun", mode)
		}
		answer, err := request.DoRaw(t.Context())
		if err := errors.Join(err, json.Unmarshal(answer, &is)); err != nil {
			t.Fatal(err)
		}
		return is["spec"].(map[string]any)
	}
	stored := wouldBe(string(git))
	awaitObject(t, team, "rollouts-demo", "made", there)
	if diff := cmp.Diff(stored, wouldBe(string(git), "All")); diff != "" {
		t.Errorf("Argo CD sees a difference (-stored +would be):\n%s", diff)
	}
	if trigger := stored["triggers"].([]any)[0].(map[string]any); trigger["type"] != "external-push" {
		t.Errorf("the stored trigger is %v", trigger)
	}
	changed := strings.Replace(string(git), `targetValue: "5"`, `targetValue: "6"`, 1)
	if cmp.Equal(stored, wouldBe(changed, "All")) {
		t.Error("Argo CD does not see a new targetValue")
	}
}
