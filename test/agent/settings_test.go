package agent_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// Texts of annotation http.kedify.io/autowire-settings.
const (
	inH2C    = `{"protocol":"h2c"}`
	byCookie = `{"sessionAffinity":{"cookie":{"name":"kedify-session","path":"/","secure":false,"httpOnly":true,"sameSite":"Lax"}}}`
)

// openShop is Service shop, whose port selects no protocol.
const openShop = `{apiVersion: v1, kind: Service, metadata: {name: shop}, spec: {ports: [{port: 80}]}}`

// programmed reports, like the interceptor, that every Ready proxy has acknowledged an HTTPScaledObject.
func programmed(t *testing.T, namespace, name string) {
	t.Helper()
	acknowledged(t, namespace, name, "")
}

// acknowledged is programmed for an HTTPScaledObject with a text of annotation http.kedify.io/autowire-settings.
func acknowledged(t *testing.T, namespace, name, settings string) {
	t.Helper()
	found := awaitObject(t, namespace, name, "made", there)
	report := ""
	if settings != "" {
		report = fmt.Sprintf(`, "dataPlane": {"annotationHash": "", "effective": true, "proxies": {"ready": 1, "acked": 1},
			"autowireSettings": %q}`, settings)
	}
	body := fmt.Sprintf(`{"apiVersion": "http.keda.sh/v1alpha1", "kind": "HTTPScaledObject", "metadata": {"name": %q}, "status": {"conditions": [
		{"type": "Programmed", "status": "True", "reason": "Programmed", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
		"observedGeneration": %d}]%s}}`, name, found.Generation, report)
	path := httpScaledObject(namespace, name) + "/status"
	if err := shared.admin.Patch(types.ApplyPatchType).AbsPath(path).Param("fieldManager", "interceptor").
		Body([]byte(body)).Do(t.Context()).Error(); err == nil {
		return
	}
	// The CRD lacks the field, so the interceptor writes the annotation.
	status, err := json.Marshal(fmt.Sprintf(`{"uid": %q, "conditions": [{"type": "Programmed", "status": "True", "observedGeneration": %d}]}`,
		found.UID, found.Generation))
	if err != nil {
		t.Fatal(err)
	}
	patch(t, httpScaledObject(namespace, name),
		`{"metadata": {"annotations": {"http.kedify.io/status": `+string(status)+`}}}`)
}

// awaitSettings waits until HTTPScaledObject shop has settings that autowiring has taken over, or none.
func awaitSettings(t *testing.T, namespace, settings string) {
	t.Helper()
	awaitObject(t, namespace, "shop", "settings "+settings, func(object *httpv1alpha1.HTTPScaledObject) bool {
		text, isSet := object.Annotations[httpv1alpha1.AnnotationAutowireSettings]
		return text == settings && isSet == (settings != "")
	})
}

// awaitPending waits until the agent reports that it waits for the proxies to acknowledge settings, and checks that
// nothing is wired then.
func awaitPending(t *testing.T, namespace, settings string, before []web) {
	t.Helper()
	awaitSettings(t, namespace, settings)
	awaitObject(t, namespace, "shop", "not acknowledged", func(object *httpv1alpha1.HTTPScaledObject) bool {
		found := meta.FindStatusCondition(object.Status.Conditions, httpv1alpha1.ConditionAutowired)
		return found != nil && found.Reason == httpv1alpha1.ReasonNotProgrammed &&
			strings.Contains(found.Message, "annotation http.kedify.io/autowire-settings of HTTPScaledObject")
	})
	areOriginal(t, before, webs(t, namespace))
}

// TestProtocolOfIngress wires an Ingress of ingress-nginx for gRPC, as soon as every proxy uses HTTP/2 to the
// application. It stays wired if a user removes the annotation. After it is restored, nothing is left.
func TestProtocolOfIngress(t *testing.T) {
	t.Parallel()
	const direct, wired = "shop:80 cart:80", "kedify-proxy:8080 cart:80"
	team := namespace(t, "grpc-ingress")
	apply(t, team, originalIngress, openShop)
	annotateIngress(t, team, "nginx.ingress.kubernetes.io/backend-protocol", `"GRPC"`)
	before := webs(t, team)
	proxies(t, team, true)
	apply(t, team, shop(simple))
	programmed(t, team, "shop")
	awaitPending(t, team, inH2C, before)
	acknowledged(t, team, "shop", inH2C)
	found := awaitBackends(t, team, wired)
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonWired)

	patch(t, httpScaledObject(team, "shop"), `{"metadata": {"annotations": {"http.kedify.io/autowire-settings": null}}}`)
	awaitSettings(t, team, inH2C)
	version := func(one web) any { return one["metadata"].(map[string]any)["resourceVersion"] }
	if after := webs(t, team); version(after[0]) != version(found[0]) {
		t.Errorf("the Ingress was written:\n%v\n%v", found, after)
	}

	apply(t, team, shop(`{hosts: shop.test, port: "80", service: shop, trafficAutowire: "false"}`))
	areOriginal(t, before, awaitBackends(t, team, direct))
	awaitSettings(t, team, "")
}

// TestProtocolOfService wires an Ingress of Contour for gRPC by an annotation of the Service, to the port of the proxies
// for HTTP/2. If the port itself selects the protocol, the annotation is removed.
func TestProtocolOfService(t *testing.T) {
	t.Parallel()
	team := namespace(t, "grpc-service")
	apply(t, team, originalIngress, openShop)
	service := "/api/v1/namespaces/" + team + "/services/shop"
	patch(t, service, `{"metadata": {"annotations": {"projectcontour.io/upstream-protocol.h2c": "80"}}}`)
	before := webs(t, team)
	apply(t, team, shop(simple))
	awaitParts(t, team, len(proxyParts))
	apply(t, team, `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: proxies, labels: {kubernetes.io/service-name: kedify-proxy}},
		addressType: IPv4, ports: [{name: http, port: 8080}, {name: h2c, port: 8080}],
		endpoints: [{addresses: [10.0.0.1], conditions: {ready: true}}]}`)
	programmed(t, team, "shop")
	awaitPending(t, team, inH2C, before)
	acknowledged(t, team, "shop", inH2C)
	awaitBackends(t, team, "kedify-proxy:8081 cart:80")
	patch(t, service, `{"spec": {"ports": [{"port": 80, "appProtocol": "kubernetes.io/h2c"}]}}`)
	awaitSettings(t, team, "")
	awaitBackends(t, team, "kedify-proxy:8081 cart:80")
	remove(t, scaledObject(team, "shop"))
	areOriginal(t, before, awaitBackends(t, team, "shop:80 cart:80"))
	awaitGone(t, team, "shop")
}

// TestAffinityOfIngress takes over the cookie of an Ingress. A session affinity in the trigger replaces it.
func TestAffinityOfIngress(t *testing.T) {
	t.Parallel()
	const wired = "kedify-proxy:8080 cart:80"
	team := namespace(t, "cookie")
	apply(t, team, originalIngress, openShop)
	annotateIngress(t, team, "nginx.ingress.kubernetes.io/affinity", `"cookie"`)
	before := webs(t, team)
	proxies(t, team, true)
	apply(t, team, shop(simple))
	programmed(t, team, "shop")
	awaitPending(t, team, byCookie, before)
	acknowledged(t, team, "shop", byCookie)
	awaitBackends(t, team, wired)

	apply(t, team, shop(`{hosts: shop.test, port: "80", service: shop, sessionAffinity: "{header: x-user}"}`))
	awaitSettings(t, team, "")
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonWired)
	awaitBackends(t, team, wired)
	apply(t, team, shop(simple))
	awaitSettings(t, team, byCookie)
	remove(t, scaledObject(team, "shop"))
	areOriginal(t, before, awaitBackends(t, team, "shop:80 cart:80"))
	awaitGone(t, team, "shop")
}
