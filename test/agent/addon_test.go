package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// TestCRDOfHTTPAddOn runs the agent with the CRD of the KEDA HTTP add-on, from its source in $HTTP_ADD_ON, which CI
// requires, and with objects as the add-on and its users create them. The agent changes none of them, reports the name
// that is in use, and creates the objects of its triggers.
//
//nolint:paralleltest // it replaces the shared cluster
func TestCRDOfHTTPAddOn(t *testing.T) {
	source := os.Getenv("HTTP_ADD_ON")
	if source == "" {
		return
	}
	folder := clusterOfItsOwn(t)
	applyFiles(t, "", filepath.Join(source, "config/crd/bases/http.keda.sh_httpscaledobjects.yaml"),
		filepath.Join(source, "config/crd/bases/http.keda.sh_interceptorroutes.yaml"))
	team, other := namespace(t, "team"), namespace(t, "other")
	const object = `{apiVersion: http.keda.sh/v1alpha1, kind: HTTPScaledObject, metadata: {name: %s, finalizers: [httpscaledobject.http.keda.sh]},
		spec: {hosts: [%[1]s.test], scaleTargetRef: {name: %[1]s, kind: Deployment, apiVersion: apps/v1, service: %[1]s, port: 80}}}`
	apply(t, team, fmt.Sprintf(object, "web"), fmt.Sprintf(object, "shop"))
	var web httpv1alpha1.HTTPScaledObject
	get(t, httpScaledObject(team, "web"), &web)
	// As the add-on's operator creates it.
	apply(t, team, fmt.Sprintf(`{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: web, ownerReferences: [
		{apiVersion: http.keda.sh/v1alpha1, kind: HTTPScaledObject, name: web, uid: %s, controller: true, blockOwnerDeletion: true}]},
		spec: {pollingInterval: 15, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, triggers: [
		{type: external-push, metadata: {scalerAddress: "keda-add-ons-http-external-scaler.keda:9090", httpScaledObject: web}}]}}`, web.UID))
	before := versions(t, team)

	agent, _, err := shared.start(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Kill() })
	apply(t, team, shop(simple))
	awaitEvent(t, team, httpv1alpha1.ReasonNameInUse, `HTTPScaledObject "shop" already exists and belongs to another owner; `+
		`delete it, or set a different httpScaledObject in the trigger's metadata`)
	apply(t, other, shop(`{hosts: shop.test, pathPrefixes: /a, port: "80", service: shop}`))
	created := awaitObject(t, other, "shop", "created", there)
	if got := created.Spec; len(got.Hosts) != 1 || len(got.PathPrefixes) != 1 || got.ScaleTargetRef.Port != 80 ||
		created.Annotations["httpscaledobject.keda.sh/skip-scaledobject-creation"] != "true" {
		t.Errorf("the created object is %+v", created)
	}
	if diff := cmp.Diff(before, versions(t, team)); diff != "" {
		t.Errorf("the agent changed an object of the add-on (-before +after):\n%s", diff)
	}
}

// versions returns the versions of the objects of the add-on in a namespace.
func versions(t *testing.T, team string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, path := range []string{
		httpScaledObject(team, "web"), httpScaledObject(team, "shop"), scaledObject(team, "web"),
	} {
		var found metav1.PartialObjectMetadata
		if !get(t, path, &found) {
			t.Fatalf("%s does not exist", path)
		}
		all[path] = found.ResourceVersion
	}
	return all
}
