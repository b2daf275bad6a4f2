package desired_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
)

// address is the scaler's address.
const address = "scaler.keda:9090"

// notEmbedded is the message about health checks with a host in their path.
const notEmbedded = `not supported: the proxies answer the health checks of load balancers for every Host that no object ` +
	`has, such as an IP address, with any path and with 200; remove it; ignored`

// read reads an object.
func read[T any](t *testing.T, text string) *T {
	t.Helper()
	object := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return object
}

// shop returns a ScaledObject with triggers, a YAML list, whose target is a Rollout.
func shop(t *testing.T, triggers string) *apis.ScaledObject {
	t.Helper()
	return read[apis.ScaledObject](t, `
metadata: {name: shop, namespace: team, uid: uid-1}
spec:
  scaleTargetRef: {apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: shop}
  triggers: `+triggers)
}

// canary is the Rollout.
const canary = `{metadata: {name: shop}, spec: {strategy: {canary: {stableService: shop-stable}}}}`

// summary has the compared fields of a Want.
type summary struct {
	Name, Service string
	Says          []string
}

func summaries(wants []desired.Want) []summary {
	var out []summary
	for _, want := range wants {
		one := summary{Name: want.Name}
		if want.Object != nil {
			one.Service = want.Object.Spec.ScaleTargetRef.Service
		}
		for _, problem := range want.Problems {
			one.Says = append(one.Says, problem.Reason+": "+problem.Message)
		}
		out = append(out, one)
	}
	return out
}

const (
	plain = `{type: kedify-http, metadata: {hosts: a.test, port: "80"}}`
	other = `{type: cpu, metadata: {value: "50"}}`
)

// TestDesired has the HTTPScaledObjects of a ScaledObject, and their Services.
func TestDesired(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		triggers string
		rollout  string // none if empty
		want     []summary
	}{
		"one has the ScaledObject's name": {`[` + other + `, ` + plain + `]`, canary, []summary{{"shop", "shop-stable", nil}}},
		"no managed trigger":              {`[` + other + `]`, canary, nil},
		"several have names of their own": {`[` + other + `, ` + plain + `, {type: kedify-http, name: api, metadata: {hosts: b.test, port: "80"}}]`, canary, []summary{{"shop", "shop-stable", nil}, {"shop-api", "shop-stable", nil}}},
		"explicit name":                   {`[{type: external-push, metadata: {hosts: a.test, port: "80", convertedFrom: kedify-http, httpScaledObject: shop}}, ` + plain + `]`, canary, []summary{{"shop", "shop-stable", nil}, {"shop-1", "shop-stable", nil}}},
		"manual":                          {`[{type: external-push, metadata: {hosts: a.test, port: "80", scalerAddress: "` + address + `"}}]`, canary, []summary{{"shop", "shop-stable", nil}}},
		"several manual triggers": {`[{type: external-push, metadata: {hosts: a.test, port: "80", scalerAddress: "` + address + `"}}, ` +
			`{type: external-push, name: b, metadata: {hosts: b.test, port: "80", scalerAddress: "` + address + `"}}, ` +
			`{type: external-push, metadata: {hosts: c.test, port: "80", scalerAddress: "` + address + `", httpScaledObject: shop-c}}]`, canary, []summary{
			{"shop", "shop-stable", nil},
			{"", "", []string{`InvalidName: spec.triggers[1]: another trigger already uses HTTPScaledObject "shop"; set a different httpScaledObject in the metadata`}},
			{"shop-c", "shop-stable", nil},
		}},
		"manual and converted triggers": {`[` + plain + `, {type: external-push, metadata: {hosts: b.test, port: "80", scalerAddress: "` + address + `"}}]`, canary, []summary{
			{"shop-0", "shop-stable", nil}, {"shop", "shop-stable", nil},
		}},
		"the ScaledObject's name is taken": {`[` + plain + `, {type: kedify-http, metadata: {hosts: b.test, port: "80", httpScaledObject: shop}}]`, canary, []summary{{"shop-0", "shop-stable", nil}, {"shop", "shop-stable", nil}}},
		"object of a user":                 {`[{type: external-push, metadata: {httpScaledObject: mine, scalerAddress: "` + address + `"}}]`, canary, nil},
		"service matches the Rollout":      {`[{type: kedify-http, metadata: {hosts: a.test, port: "80", service: shop-stable}}]`, canary, []summary{{"shop", "shop-stable", nil}}},
		"service differs from the Rollout": {`[{type: kedify-http, metadata: {hosts: a.test, port: "80", service: shop}}]`, canary, []summary{{"shop", "shop", []string{`ServiceMismatch: spec.triggers[0].metadata.service: "shop" differs from the stable Service "shop-stable" of Rollout "shop"; remove service to use the Rollout's`}}}},
		"a service, and no Rollout yet":    {`[{type: kedify-http, metadata: {hosts: a.test, port: "80", service: shop}}]`, "", []summary{{"shop", "shop", nil}}},
		"no service, and no Rollout yet": {`[` + plain + `]`, "", []summary{{"shop", "", []string{
			`ServiceNotSet: spec.triggers[0]: Rollout "shop", which defines the Service, does not exist; create it, or set service in the metadata`,
		}}}},
		"blue-green":                {`[` + plain + `]`, `{spec: {strategy: {blueGreen: {activeService: shop-active}}}}`, []summary{{"shop", "shop-active", nil}}},
		"ping-pong, initial":        {`[` + plain + `]`, `{spec: {strategy: {canary: {pingPong: {pingService: ping, pongService: pong}}}}}`, []summary{{"shop", "pong", nil}}},
		"ping-pong, ping is stable": {`[` + plain + `]`, `{spec: {strategy: {canary: {pingPong: {pingService: ping, pongService: pong}}}}, status: {canary: {stablePingPong: ping}}}`, []summary{{"shop", "ping", nil}}},
		"a Rollout without Services": {`[` + plain + `]`, `{spec: {strategy: {canary: {}}}}`, []summary{{"shop", "", []string{
			`ServiceNotSet: spec.triggers[0]: Rollout "shop" defines no Service; set its spec.strategy.canary.stableService or spec.strategy.blueGreen.activeService, or service in the metadata`,
		}}}},
		"unknown key": {`[{type: kedify-http, metadata: {hosts: a.test, port: "80", pathPrefix: /a}}]`, canary, []summary{{"shop", "shop-stable", []string{
			`KeyIgnored: spec.triggers[0].metadata.pathPrefix "/a": unknown key, ignored; did you mean pathPrefixes?`,
		}}}},
		"published keys without support": {`[{type: kedify-http, metadata: {hosts: a.test, port: "80", trafficAutowire: gloo, healthcheckResponse: pathEmbeddedHost, healthcheckPathPrefix: /x}}]`, canary, []summary{{"shop", "shop-stable", []string{
			`KeyIgnored: spec.triggers[0].metadata.trafficAutowire "gloo": "gloo": use a list of ingress, httproute, virtualservice, route, service, separated by commas, or false for none; false applies`,
			`KeyIgnored: spec.triggers[0].metadata.healthcheckResponse "pathEmbeddedHost": ` + notEmbedded,
			`KeyIgnored: spec.triggers[0].metadata.healthcheckPathPrefix "/x": ` + notEmbedded,
		}}}},
		"one invalid value of two": {`[{type: kedify-http, metadata: {hosts: a.test, port: "0"}}, ` + plain + `]`, canary, []summary{
			{"shop", "", []string{`InvalidTrigger: spec.triggers[0].metadata.port "0": use a whole number from 1 to 65535, or portName for a name`}},
			{"shop-1", "shop-stable", nil},
		}},
		"invalid service, but a Rollout": {`[{type: kedify-http, metadata: {hosts: a.test, port: http, service: Shop_1}}]`, canary, []summary{{"shop", "shop-stable", []string{
			`KeyIgnored: spec.triggers[0].metadata.service "Shop_1": use the name of a Service of the same namespace: at most 63 lower-case letters, digits and hyphens; a new object gets the stable Service shop-stable of the Rollout, an existing one keeps its own`,
			`KeyIgnored: spec.triggers[0].metadata.port "http": not a number from 1 to 65535: use portName for a name; a new object gets portName http, an existing one keeps its own`,
		}}}},
		"invalid service, and no Rollout yet": {`[{type: kedify-http, metadata: {hosts: a.test, port: "80", service: a/b}}]`, "", []summary{{"shop", "", []string{
			`InvalidTrigger: spec.triggers[0].metadata.service "a/b": use the name of a Service of the same namespace: at most 63 lower-case letters, digits and hyphens`,
		}}}},
		"no hosts": {`[{type: kedify-http, metadata: {port: "80"}}]`, canary, []summary{{"shop", "shop-stable", []string{
			`KeyIgnored: spec.triggers[0].metadata.hosts: missing: a new object gets all hosts of the namespace, an existing one keeps its own; name them, such as shop.example.com, or "*" for all`,
		}}}},
		"invalid name": {`[` + plain + `, {type: kedify-http, name: My API, metadata: {hosts: b.test, port: "80"}}]`, canary, []summary{
			{"shop", "shop-stable", nil},
			{"", "", []string{`InvalidName: spec.triggers[1]: invalid HTTPScaledObject name "shop-My API": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*'); use lower-case letters, digits and hyphens in the trigger's name`}},
		}},
		"duplicate name": {`[` + plain + `, {type: kedify-http, name: x, metadata: {hosts: c.test, port: "80"}}, {type: kedify-http, name: x, metadata: {hosts: b.test, port: "80"}}]`, canary, []summary{
			{"shop", "shop-stable", nil},
			{"shop-x", "shop-stable", nil},
			{"", "", []string{`InvalidName: spec.triggers[2]: another trigger already uses HTTPScaledObject "shop-x"; set a different httpScaledObject in the metadata`}},
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var rollout *apis.Rollout
			if test.rollout != "" {
				rollout = read[apis.Rollout](t, test.rollout)
			}
			if diff := cmp.Diff(test.want, summaries(desired.Desired(shop(t, test.triggers), rollout, address))); diff != "" {
				t.Errorf("wants (-want +got):\n%s", diff)
			}
		})
	}
}

// full is a ScaledObject with every key.
const full = `
metadata: {name: shop, namespace: team, uid: uid-1}
spec:
  minReplicaCount: 2
  maxReplicaCount: 10
  scaleTargetRef: {name: shop}
  triggers:
    - type: kedify-http
      metadata:
        hosts: a.test,b.test
        pathPrefixes: /,/api
        headers: "[{name: X-Team, value: a}]"
        service: shop
        portName: http
        fallbackService: shop-direct
        scalingMetric: requestRate
        targetValue: "5"
        granularity: 2s
        window: 30s
        externalProxyMetricKey: outbound|80||shop
        externalProxySources: 10.0.0.0/8,192.0.2.7
        trafficAutowire: ingress
        healthcheckPath: /healthz
        healthcheckResponse: static
        tlsSecretName: shop-tls
        coldStartWaitingPageEnabled: "true"
        coldStartWaitingPageConfigMapRef: page
        sessionAffinity: "{cookie: {name: route}}"
        staticResponses: "[{body: down}]"
        placeholderResponse: "body: soon"
        conditionWaitTimeout: 5m
        responseHeaderTimeout: 0s
        requestTimeout: 1m
        idleTimeout: 0s
`

// made is the desired HTTPScaledObject of full.
const made = `
metadata:
  name: shop
  namespace: team
  labels: {app.kubernetes.io/managed-by: kedify-http-agent}
  annotations:
    http.kedify.io/cold-start-waiting-page-config-map-ref: page
    http.kedify.io/cold-start-waiting-page-enabled: "true"
    http.kedify.io/condition-wait-timeout: 5m
    http.kedify.io/response-header-timeout: 0s
    http.kedify.io/request-timeout: 1m
    http.kedify.io/idle-timeout: 0s
    http.kedify.io/session-affinity: "{cookie: {name: route}}"
    http.kedify.io/static-responses: "[{body: down}]"
    http.kedify.io/placeholder-response: "body: soon"
    http.kedify.io/external-proxy-metric-key: outbound|80||shop
    http.kedify.io/external-proxy-sources: 10.0.0.0/8,192.0.2.7
    http.kedify.io/fallback-service: shop-direct
    http.kedify.io/healthcheck-path: /healthz
    http.kedify.io/healthcheck-response: static
    http.kedify.io/tls-secret-name: shop-tls
    http.kedify.io/traffic-autowire: ingress
    httpscaledobject.keda.sh/skip-scaledobject-creation: "true"
  ownerReferences:
    - {apiVersion: keda.sh/v1alpha1, kind: ScaledObject, name: shop, uid: uid-1, controller: true}
spec:
  hosts: [a.test, b.test]
  pathPrefixes: [/, /api]
  headers: [{name: X-Team, value: a}]
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: shop, service: shop, portName: http}
  replicas: {min: 2, max: 10}
  scalingMetric: {requestRate: {targetValue: 5, window: 30s, granularity: 2s}}
  timeouts: {conditionWait: 5m, responseHeader: 0s}
`

func TestAllKeys(t *testing.T) {
	t.Parallel()
	wants := desired.Desired(read[apis.ScaledObject](t, full), nil, address)
	if len(wants) != 1 || len(wants[0].Problems) > 0 {
		t.Fatalf("wants: %+v", wants)
	}
	if diff := cmp.Diff(read[httpv1alpha1.HTTPScaledObject](t, made), wants[0].Object); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
}

// TestPausingAnnotations: a request must not wait for a paused app.
func TestPausingAnnotations(t *testing.T) {
	t.Parallel()
	scaled := read[apis.ScaledObject](t, full)
	scaled.Annotations = map[string]string{"autoscaling.keda.sh/paused-replicas": "0", "team": "a"}
	want := read[httpv1alpha1.HTTPScaledObject](t, made)
	want.Annotations["autoscaling.keda.sh/paused-replicas"] = "0"
	if diff := cmp.Diff(want, desired.Desired(scaled, nil, address)[0].Object); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	scaled := read[apis.ScaledObject](t, `{metadata: {name: shop}, spec: {scaleTargetRef: {name: shop}, triggers: [
		{type: kedify-http, metadata: {hosts: a.test, port: "80", service: shop, scalingMetric: concurrency}}]}}`)
	got := desired.Desired(scaled, nil, address)[0].Object.Spec
	want := httpv1alpha1.HTTPScaledObjectSpec{
		Hosts:          []string{"a.test"},
		ScaleTargetRef: httpv1alpha1.ScaleTargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "shop", Service: "shop", Port: 80},
		Replicas:       &httpv1alpha1.ReplicaRange{Min: new(int32(0)), Max: new(int32(100))},
		ScalingMetric:  &httpv1alpha1.ScalingMetric{Concurrency: &httpv1alpha1.ConcurrencyMetric{TargetValue: 100}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

func TestInvalidScaledObject(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ scaled, says string }{
		"a Deployment without a service": {
			`{spec: {scaleTargetRef: {name: shop}, triggers: [` + plain + `]}, metadata: {name: shop}}`,
			`spec.triggers[0].metadata.service: required, because the target is Deployment "shop" and not a Rollout; set the Service that receives the requests`,
		},
		"more replicas than numbers": {
			`{spec: {maxReplicaCount: 9999999999, scaleTargetRef: {name: shop}, triggers: [{type: kedify-http, metadata: {hosts: a.test, port: "80", service: a}}]}, metadata: {name: shop}}`,
			`spec.maxReplicaCount: 9999999999 is out of range: use a number from 0 to 2147483647`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := desired.Desired(read[apis.ScaledObject](t, test.scaled), nil, address)[0]
			if got := desired.JoinProblems(want.Problems); got != test.says || want.Object != nil {
				t.Errorf("%s (object %v), want %s", got, want.Object, test.says)
			}
		})
	}
}

// TestScaledObjectOfHTTPAddOn has one that the KEDA HTTP add-on created from an HTTPScaledObject.
func TestScaledObjectOfHTTPAddOn(t *testing.T) {
	t.Parallel()
	scaled := shop(t, `[{type: external-push, metadata: {scalerAddress: "`+address+`", hosts: a.test}}]`)
	scaled.OwnerReferences = []metav1.OwnerReference{{APIVersion: "http.keda.sh/v1alpha1", Kind: "HTTPScaledObject", Name: "shop", Controller: new(true)}}
	if wants := desired.Desired(scaled, nil, address); wants != nil {
		t.Errorf("wants %+v", wants)
	}
}

// changes has the compared fields of Changes.
type changes struct {
	Create, Update, Delete []string
	Conditions             map[string][]string
	Problems               string
}

func changesOf(found desired.Changes) changes {
	out := changes{Problems: desired.JoinProblems(found.Problems)}
	for names, list := range map[*[]string][]*httpv1alpha1.HTTPScaledObject{&out.Create: found.Create, &out.Update: found.Update, &out.Delete: found.Delete} {
		for _, object := range list {
			*names = append(*names, object.Name)
		}
	}
	for name, conditions := range found.Conditions {
		for _, condition := range conditions {
			if out.Conditions == nil {
				out.Conditions = map[string][]string{}
			}
			out.Conditions[name] = append(out.Conditions[name], condition.Type+"="+string(condition.Status)+" "+condition.Reason)
		}
	}
	return out
}

// TestCompare has existing objects. Each case starts from the object of full, as it was written.
func TestCompare(t *testing.T) {
	t.Parallel()
	accepted := []string{"TriggerAccepted=True TriggerAccepted"}
	written := func(t *testing.T) *httpv1alpha1.HTTPScaledObject {
		t.Helper()
		object := read[httpv1alpha1.HTTPScaledObject](t, made)
		object.UID = "uid-of-the-object"
		first := desired.Compare(read[apis.ScaledObject](t, full), desired.Desired(read[apis.ScaledObject](t, full), nil, address), nil)
		object.Status.Conditions = first.Conditions["shop"]
		return object
	}
	tests := map[string]struct {
		scaled func(*apis.ScaledObject)             // changed before
		object func(*httpv1alpha1.HTTPScaledObject) // nil: there is none
		want   changes
	}{
		"nothing there":   {want: changes{Create: []string{"shop"}, Conditions: map[string][]string{"shop": accepted}}},
		"nothing changed": {object: func(*httpv1alpha1.HTTPScaledObject) {}},
		"additions by others": {object: func(object *httpv1alpha1.HTTPScaledObject) {
			object.Annotations[httpv1alpha1.AnnotationWeightedBackends] = "[{service: shop, weight: 1}]"
			object.Labels["team"] = "a"
			object.Status.Conditions = append(object.Status.Conditions, metav1.Condition{Type: "Ready", Status: "True"})
		}},
		"trigger changed": {
			scaled: func(scaled *apis.ScaledObject) { scaled.Spec.Triggers[0].Metadata["hosts"] = "c.test" },
			object: func(*httpv1alpha1.HTTPScaledObject) {},
			want:   changes{Update: []string{"shop"}},
		},
		"key removed": {
			scaled: func(scaled *apis.ScaledObject) {
				delete(scaled.Spec.Triggers[0].Metadata, "healthcheckResponse")
			},
			object: func(*httpv1alpha1.HTTPScaledObject) {},
			want:   changes{Update: []string{"shop"}},
		},
		"timeout edited by a user": {object: func(object *httpv1alpha1.HTTPScaledObject) {
			object.Spec.Timeouts.ResponseHeader = &metav1.Duration{Duration: 1}
		}, want: changes{Update: []string{"shop"}}},
		"timeout of a user": {
			scaled: func(scaled *apis.ScaledObject) {
				delete(scaled.Spec.Triggers[0].Metadata, "responseHeaderTimeout")
			},
			object: func(object *httpv1alpha1.HTTPScaledObject) {
				delete(object.Annotations, "http.kedify.io/response-header-timeout")
				object.Spec.Timeouts.ResponseHeader = &metav1.Duration{Duration: 1}
			},
		},
		"timeout removed": {
			scaled: func(scaled *apis.ScaledObject) {
				delete(scaled.Spec.Triggers[0].Metadata, "responseHeaderTimeout")
			},
			object: func(*httpv1alpha1.HTTPScaledObject) {},
			want:   changes{Update: []string{"shop"}},
		},
		"spec edited by a user":        {object: func(object *httpv1alpha1.HTTPScaledObject) { object.Spec.ScaleTargetRef.PortName = "x" }, want: changes{Update: []string{"shop"}}},
		"owner removed by a user":      {object: func(object *httpv1alpha1.HTTPScaledObject) { object.OwnerReferences[0].UID = "gone" }, want: changes{Update: []string{"shop"}}},
		"label removed by a user":      {object: func(object *httpv1alpha1.HTTPScaledObject) { object.Labels = nil }, want: changes{Update: []string{"shop"}}},
		"conditions removed by a user": {object: func(object *httpv1alpha1.HTTPScaledObject) { object.Status.Conditions = nil }, want: changes{Conditions: map[string][]string{"shop": accepted}}},
		"an object that is being deleted": {object: func(object *httpv1alpha1.HTTPScaledObject) {
			object.DeletionTimestamp, object.Spec.Hosts = &metav1.Time{}, nil
		}},
		"no autowire any more": {
			scaled: func(scaled *apis.ScaledObject) { scaled.Spec.Triggers[0].Metadata["trafficAutowire"] = "false" },
			object: func(*httpv1alpha1.HTTPScaledObject) {},
			want:   changes{Update: []string{"shop"}},
		},
		"an error keeps the object": {
			scaled: func(scaled *apis.ScaledObject) { scaled.Spec.Triggers[0].Metadata["hosts"] = "a b" },
			object: func(*httpv1alpha1.HTTPScaledObject) {},
			want: changes{
				Conditions: map[string][]string{"shop": {"TriggerAccepted=False InvalidTrigger"}},
				Problems:   `spec.triggers[0].metadata.hosts "a b": "a b": not a host name: use letters, digits and hyphens between dots, such as shop.example.com, *.example.com or *`,
			},
		},
		"no hosts": {
			scaled: func(scaled *apis.ScaledObject) { scaled.Spec.Triggers[0].Metadata["hosts"] = "" },
			object: func(*httpv1alpha1.HTTPScaledObject) {},
			want: changes{
				Conditions: map[string][]string{"shop": {"TriggerAccepted=True KeyIgnored"}},
				Problems:   `spec.triggers[0].metadata.hosts: missing: a new object gets all hosts of the namespace, an existing one keeps its own; name them, such as shop.example.com, or "*" for all`,
			},
		},
		"always invalid": {
			scaled: func(scaled *apis.ScaledObject) { scaled.Spec.Triggers[0].Metadata["portName"] = "A" },
			want:   changes{Problems: `spec.triggers[0].metadata.portName "A": use the name of a port of the Service: at most 63 lower-case letters, digits and hyphens`},
		},
		"trigger removed": {
			scaled: func(scaled *apis.ScaledObject) { scaled.Spec.Triggers = nil },
			object: func(*httpv1alpha1.HTTPScaledObject) {},
			want:   changes{Delete: []string{"shop"}},
		},
		"another name": {
			scaled: func(scaled *apis.ScaledObject) {
				scaled.Spec.Triggers[0].Metadata["httpScaledObject"] = "new"
			},
			object: func(*httpv1alpha1.HTTPScaledObject) {},
			want:   changes{Create: []string{"new"}, Delete: []string{"shop"}, Conditions: map[string][]string{"new": accepted}},
		},
		"another name, and a mistake, deletes nothing": {
			scaled: func(scaled *apis.ScaledObject) {
				scaled.Spec.Triggers[0].Metadata["httpScaledObject"], scaled.Spec.Triggers[0].Metadata["portName"] = "new", "-"
			},
			object: func(*httpv1alpha1.HTTPScaledObject) {},
			want:   changes{Problems: `spec.triggers[0].metadata.portName "-": use the name of a port of the Service: at most 63 lower-case letters, digits and hyphens`},
		},
		"an invalid name deletes nothing": {
			scaled: func(scaled *apis.ScaledObject) {
				scaled.Spec.Triggers[0].Metadata["httpScaledObject"] = "-"
			},
			object: func(*httpv1alpha1.HTTPScaledObject) {},
			want:   changes{Problems: `spec.triggers[0]: invalid HTTPScaledObject name "-": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*'); use lower-case letters, digits and hyphens in the trigger's name`},
		},
		"ScaledObject recreated with the same name": {
			scaled: func(scaled *apis.ScaledObject) { scaled.UID = "uid-2" },
			object: func(*httpv1alpha1.HTTPScaledObject) {},
			want:   changes{Update: []string{"shop"}},
		},
		"object of another owner": {
			object: func(object *httpv1alpha1.HTTPScaledObject) { object.OwnerReferences = nil },
			want:   changes{Problems: `HTTPScaledObject "shop" already exists and belongs to another owner; delete it, or set a different httpScaledObject in the trigger's metadata`},
		},
		"another ScaledObject's object": {
			object: func(object *httpv1alpha1.HTTPScaledObject) { object.OwnerReferences[0].Name = "other" },
			want:   changes{Problems: `HTTPScaledObject "shop" already exists and belongs to another owner; delete it, or set a different httpScaledObject in the trigger's metadata`},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scaled := read[apis.ScaledObject](t, full)
			if test.scaled != nil {
				test.scaled(scaled)
			}
			var existing []*httpv1alpha1.HTTPScaledObject
			if test.object != nil {
				object := written(t)
				test.object(object)
				existing = append(existing, object)
			}
			got := desired.Compare(scaled, desired.Desired(scaled, nil, address), existing)
			if diff := cmp.Diff(test.want, changesOf(got)); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			for _, object := range got.Update {
				if object.UID != types.UID("uid-of-the-object") {
					t.Errorf("the update is for the object %q", object.UID)
				}
			}
			if len(existing) > 0 && len(got.Delete) > 0 && got.Delete[0] != existing[0] {
				t.Errorf("deletes %v", got.Delete[0])
			}
		})
	}
}

// TestConvert compares the patch itself, word for word.
func TestConvert(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ triggers, want string }{
		"the guide's":          {`[` + plain + `]`, `[{"op":"replace","path":"/spec/triggers/0/type","value":"external-push"},{"op":"add","path":"/spec/triggers/0/metadata/convertedFrom","value":"kedify-http"},{"op":"add","path":"/spec/triggers/0/metadata/httpScaledObject","value":"shop"},{"op":"add","path":"/spec/triggers/0/metadata/scalerAddress","value":"scaler.keda:9090"}]`},
		"with other hosts":     {`[` + other + `, {type: kedify-http, metadata: {scalerAddress: mine}}, ` + other + `]`, `[{"op":"replace","path":"/spec/triggers/1/type","value":"external-push"},{"op":"add","path":"/spec/triggers/1/metadata/convertedFrom","value":"kedify-http"},{"op":"add","path":"/spec/triggers/1/metadata/httpScaledObject","value":"shop"}]`},
		"without any metadata": {`[{type: kedify-http}]`, `[{"op":"replace","path":"/spec/triggers/0/type","value":"external-push"},{"op":"add","path":"/spec/triggers/0/metadata","value":{"convertedFrom":"kedify-http","httpScaledObject":"shop","scalerAddress":"scaler.keda:9090"}}]`},
		"with a converted trigger": {
			`[{type: external-push, metadata: {convertedFrom: kedify-http, httpScaledObject: shop}}, {type: kedify-http, name: b, metadata: {hosts: b.test}}]`,
			`[{"op":"replace","path":"/spec/triggers/1/type","value":"external-push"},{"op":"add","path":"/spec/triggers/1/metadata/convertedFrom","value":"kedify-http"},{"op":"add","path":"/spec/triggers/1/metadata/httpScaledObject","value":"shop-b"},{"op":"add","path":"/spec/triggers/1/metadata/scalerAddress","value":"scaler.keda:9090"}]`,
		},
		"nothing to convert": {`[{type: external-push, metadata: {convertedFrom: kedify-http}}, ` + other + `]`, `null`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := json.Marshal(desired.Convert(shop(t, test.triggers), nil, address))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(got)); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNameTakenDeletesNothing has a trigger whose object gets a name of another owner: the existing object stays.
func TestNameTakenDeletesNothing(t *testing.T) {
	t.Parallel()
	scaled := read[apis.ScaledObject](t, full)
	own, foreign := read[httpv1alpha1.HTTPScaledObject](t, made), read[httpv1alpha1.HTTPScaledObject](t, made)
	foreign.Name, foreign.OwnerReferences = "new", nil
	scaled.Spec.Triggers[0].Metadata["httpScaledObject"] = "new"
	got := desired.Compare(scaled, desired.Desired(scaled, nil, address), []*httpv1alpha1.HTTPScaledObject{own, foreign})
	if len(got.Delete) > 0 || len(got.Create) > 0 || len(got.Problems) != 1 {
		t.Errorf("changes are %+v", changesOf(got))
	}
}

// TestConvertKeepsObjectNames applies manifests without object names to stored objects.
func TestConvertKeepsObjectNames(t *testing.T) {
	t.Parallel()
	stored := func(name, hosts, object string) string {
		return `{type: external-push, name: "` + name + `", metadata: {hosts: "` + hosts + `", port: "80", convertedFrom: kedify-http, httpScaledObject: ` + object + `}}`
	}
	written := func(name, hosts string) string {
		return `{type: kedify-http, name: "` + name + `", metadata: {hosts: "` + hosts + `", port: "80"}}`
	}
	tests := map[string]struct {
		old, now []string
		want     string // the objects of the triggers, in order
	}{
		"unchanged":                  {[]string{stored("", "a.test", "shop")}, []string{written("", "a.test")}, "shop"},
		"appended":                   {[]string{stored("", "a.test", "shop")}, []string{written("", "a.test"), written("", "b.test")}, "shop shop-1"},
		"inserted before":            {[]string{stored("", "a.test", "shop")}, []string{written("", "b.test"), written("", "a.test")}, "shop-0 shop"},
		"first trigger removed":      {[]string{stored("", "a.test", "shop"), stored("", "b.test", "shop-1")}, []string{written("", "b.test")}, "shop-1"},
		"another host, a name":       {[]string{stored("api", "a.test", "shop")}, []string{written("", "b.test"), written("api", "c.test")}, "shop-0 shop"},
		"another host, without one":  {[]string{stored("", "a.test", "shop")}, []string{written("", "c.test")}, "shop"},
		"the same host in two paths": {[]string{stored("", "a.test", "shop")}, []string{written("", "a.test"), written("", "a.test")}, "shop shop-1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old, now := shop(t, "["+strings.Join(test.old, ", ")+"]"), shop(t, "["+strings.Join(test.now, ", ")+"]")
			var got []string
			for _, operation := range desired.Convert(now, old, address) {
				if strings.HasSuffix(operation.Path, "/httpScaledObject") {
					got = append(got, fmt.Sprint(operation.Value))
				}
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("the objects are %v, want %s", got, test.want)
			}
		})
	}
}

// TestPreventsDeletion has the triggers that prevent the deletion of objects.
func TestPreventsDeletion(t *testing.T) {
	t.Parallel()
	for triggers, want := range map[string]bool{
		`[` + plain + `, ` + other + `]`: false,
		`[{type: external-push, metadata: {httpScaledObject: shop, scalerAddress: "` + address + `"}}]`:      true,
		`[{type: external-push, metadata: {hosts: a.test, port: "80", scalerAddress: "scaler.other:9090"}}]`: true,
		`[{type: external-push, metadata: {scalerAddress: "scaler.other:9090"}}]`:                            false,
	} {
		if got := desired.PreventsDeletion(shop(t, triggers), address); got != want {
			t.Errorf("%s: Keeps = %v", triggers, got)
		}
	}
}
