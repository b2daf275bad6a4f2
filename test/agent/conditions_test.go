package agent_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// rejectStatuses makes the API server reject the agent's writes of statuses in a namespace, as invalid. It returns the
// function that ends it.
func rejectStatuses(t *testing.T, namespace string) (end func()) {
	t.Helper()
	name := "reject-" + namespace
	apply(t, "", `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: `+name+`}, spec: {
		matchConstraints: {resourceRules: [{apiGroups: [http.keda.sh], apiVersions: [v1alpha1], operations: [UPDATE],
			resources: [httpscaledobjects/status]}]},
		validations: [{expression: "!request.userInfo.username.contains(':kedify-http-agent')", reason: Invalid, message: not now}]}}`,
		`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: `+name+`}, spec: {
		policyName: `+name+`, validationActions: [Deny],
		matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: `+namespace+`}}}}}`)
	apply(t, namespace, `{apiVersion: http.keda.sh/v1alpha1, kind: HTTPScaledObject, metadata: {name: probe},
		spec: {hosts: [probe.test], scaleTargetRef: {service: probe, port: 80}}}`)
	agent, err := shared.Client(apiserver.AgentToken)
	if err != nil {
		t.Fatal(err)
	}
	isRejected := func() bool {
		err := agent.Patch(types.MergePatchType).AbsPath(httpScaledObject(namespace, "probe") + "/status").
			Body([]byte(`{"status": {}}`)).Do(t.Context()).Error()
		return apierrors.IsInvalid(err) && strings.Contains(err.Error(), "not now")
	}
	await.True(t, "the agent's statuses are rejected", isRejected)
	return func() {
		remove(t, "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/"+name)
		await.True(t, "the agent's statuses are accepted", func() bool { return !isRejected() })
	}
}

// isAutowired reports whether an object has the condition that the autowiring writes.
func isAutowired(object *httpv1alpha1.HTTPScaledObject) bool {
	return meta.FindStatusCondition(object.Status.Conditions, httpv1alpha1.ConditionAutowired) != nil
}

// TestRejectedConditionIsRepeated rejects the writes of conditions for a while. The CRD is ours, so the agent writes each
// of them afterwards, although no object of the namespace changes.
func TestRejectedConditionIsRepeated(t *testing.T) {
	t.Parallel()
	team := namespace(t, "rejected")
	end := rejectStatuses(t, team)
	apply(t, team, originalIngress, shop(simple))
	proxies(t, team, true)
	programmed(t, team, "shop")
	awaitBackends(t, team, "kedify-proxy:8080 cart:80")
	if found := awaitObject(t, team, "shop", "there", there); isAutowired(found) {
		t.Fatalf("the condition is written although it is rejected: %+v", found.Status.Conditions)
	}
	end()
	awaitObject(t, team, "shop", "its conditions", func(object *httpv1alpha1.HTTPScaledObject) bool {
		return isAutowired(object) &&
			meta.IsStatusConditionTrue(object.Status.Conditions, httpv1alpha1.ConditionTriggerAccepted)
	})
}

// TestRejectedRemovalOfCondition rejects the removal of condition Autowired for a while. The HTTPScaledObject stays until
// the condition is removed, and is deleted then.
func TestRejectedRemovalOfCondition(t *testing.T) {
	t.Parallel()
	team := namespace(t, "removal")
	apply(t, team, originalIngress, shop(simple))
	proxies(t, team, true)
	programmed(t, team, "shop")
	awaitBackends(t, team, "kedify-proxy:8080 cart:80")
	awaitObject(t, team, "shop", "its condition", isAutowired)
	end := rejectStatuses(t, team)
	remove(t, scaledObject(team, "shop"))
	awaitBackends(t, team, "shop:80 cart:80")
	if found := awaitObject(t, team, "shop", "there", there); !isAutowired(found) {
		t.Fatalf("the condition is removed although it is rejected: %+v", found.Status.Conditions)
	}
	end()
	awaitGone(t, team, "shop")
}
