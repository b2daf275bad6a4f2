package autowire_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"sigs.k8s.io/yaml"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// TestTargetOf has the annotations and conditions of an HTTPScaledObject.
func TestTargetOf(t *testing.T) {
	t.Parallel()
	const made = `labels: {app.kubernetes.io/managed-by: kedify-http-agent}`
	const all, ingress, route = "ingress httproute virtualservice route", "ingress", "httproute"
	const settings = `, annotations: {http.kedify.io/autowire-settings: '` + inH2C + `'}`
	report := func(ready, acked int, settings string) string {
		return fmt.Sprintf(`{dataPlane: {proxies: {ready: %d, acked: %d}, autowireSettings: %q}}`, ready, acked, settings)
	}
	tests := map[string]struct {
		metadata, status string
		isTarget         bool
		isProgrammed     bool
		isShared         bool
		unsupportedKinds string
		kinds            string
		certificate      autowire.Certificate
		hasAffinity      bool
		settings         string
		isPending        bool // the settings are
		from, fallback   string
		weighted         []string
	}{
		"made by the agent":                {metadata: made, isTarget: true, kinds: all},
		"manual":                           {metadata: `annotations: {}`},
		"manual, annotated":                {metadata: `annotations: {http.kedify.io/traffic-autowire: ingress}`, isTarget: true, kinds: ingress},
		"opted out":                        {metadata: made + `, annotations: {http.kedify.io/traffic-autowire: "false"}`},
		"other kinds":                      {metadata: made + `, annotations: {http.kedify.io/traffic-autowire: route}`, isTarget: true, kinds: "route"},
		"a Service, without its name":      {metadata: made + `, annotations: {http.kedify.io/traffic-autowire: service}`, isTarget: true, kinds: "service", unsupportedKinds: "kind service needs the Service that clients call, in annotation http.kedify.io/autowire-service"},
		"a Service":                        {metadata: made + `, annotations: {http.kedify.io/traffic-autowire: "service,ingress", http.kedify.io/autowire-service: web, http.kedify.io/fallback-service: shop}`, isTarget: true, kinds: "service ingress", from: "web", fallback: "shop"},
		"weights":                          {metadata: made + `, annotations: {http.kedify.io/weighted-backends: '[{service: shop, weight: 1}, {service: new, weight: 9}]'}`, isTarget: true, kinds: all, weighted: []string{"shop", "new"}},
		"session affinity":                 {metadata: made + `, annotations: {http.kedify.io/session-affinity: "{cookie: {name: route}}"}`, isTarget: true, kinds: all, hasAffinity: true},
		"invalid session affinity":         {metadata: made + `, annotations: {http.kedify.io/session-affinity: route}`, isTarget: true, kinds: all},
		"one kind":                         {metadata: made + `, annotations: {http.kedify.io/traffic-autowire: "httproute"}`, isTarget: true, kinds: route},
		"among other kinds":                {metadata: made + `, annotations: {http.kedify.io/traffic-autowire: "service,ingress"}`, isTarget: true, kinds: ingress},
		"the shared fleet":                 {metadata: made + `, annotations: {http.kedify.io/fleet: shared}`, isTarget: true, kinds: all, isShared: true},
		"TLS, not ready":                   {metadata: made + `, annotations: {http.kedify.io/tls-secret-name: a}`, isTarget: true, kinds: all, certificate: autowire.CertificateMaybeActive},
		"TLS, ready":                       {metadata: made + `, annotations: {http.kedify.io/tls-secret-name: a}`, status: `{conditions: [{type: TLSReady, reason: TLSReady}]}`, isTarget: true, kinds: all, certificate: autowire.CertificateActive},
		"TLS, other object's certificate":  {metadata: made + `, annotations: {http.kedify.io/tls-secret-name: a}`, status: `{conditions: [{type: TLSReady, reason: CertificateConflict}]}`, isTarget: true, kinds: all, certificate: autowire.CertificateActive},
		"TLS, possibly active certificate": {metadata: made + `, annotations: {http.kedify.io/tls-secret-name: a}`, status: `{conditions: [{type: TLSReady, reason: InvalidSecret}]}`, isTarget: true, kinds: all, certificate: autowire.CertificateMaybeActive},
		"TLS, no certificate":              {metadata: made + `, annotations: {http.kedify.io/tls-secret-name: a}`, status: `{conditions: [{type: TLSReady, reason: SecretNotFound}]}`, isTarget: true, kinds: all, certificate: autowire.CertificateMissing},
		"no TLS any more":                  {metadata: made, status: `{conditions: [{type: TLSReady, reason: TLSReady}]}`, isTarget: true, kinds: all},
		"terminating":                      {metadata: made + `, deletionTimestamp: "2026-05-01T12:00:00Z"`},
		"programmed":                       {metadata: made + `, generation: 2`, status: `{conditions: [{type: Programmed, status: "True", observedGeneration: 2}]}`, isTarget: true, kinds: all, isProgrammed: true},
		"programmed before":                {metadata: made + `, generation: 2`, status: `{conditions: [{type: Programmed, status: "True", observedGeneration: 1}]}`, isTarget: true, kinds: all},
		"not programmed":                   {metadata: made + `, generation: 2`, status: `{conditions: [{type: Programmed, status: "False", observedGeneration: 2}]}`, isTarget: true, kinds: all},
		"status in an annotation":          {metadata: made + `, uid: u, generation: 2, annotations: {http.kedify.io/status: '{"uid": "u", "conditions": [{"type": "Programmed", "status": "True", "observedGeneration": 2}]}'}`, isTarget: true, kinds: all, isProgrammed: true},
		"settings":                         {metadata: made + settings, isTarget: true, kinds: all, settings: inH2C, isPending: true},
		"settings, of another report":      {metadata: made + settings, status: report(2, 2, ""), isTarget: true, kinds: all, settings: inH2C, isPending: true},
		"settings, a proxy lacks them":     {metadata: made + settings, status: report(2, 1, inH2C), isTarget: true, kinds: all, settings: inH2C, isPending: true},
		"settings, no proxy":               {metadata: made + settings, status: report(0, 0, inH2C), isTarget: true, kinds: all, settings: inH2C, isPending: true},
		"settings, acknowledged":           {metadata: made + settings, status: report(2, 2, inH2C), isTarget: true, kinds: all, settings: inH2C},
		"settings, removed":                {metadata: made, status: report(2, 2, inH2C), isTarget: true, kinds: all, isPending: true},
		"no settings, a proxy lags":        {metadata: made, status: report(2, 1, ""), isTarget: true, kinds: all},
		"settings, report in an annotation": {
			metadata: made + `, uid: u, annotations: {http.kedify.io/autowire-settings: '` + inH2C + `', http.kedify.io/status: '{"uid": "u", "dataPlane": ` +
				`{"proxies": {"ready": 1, "acked": 1}, "autowireSettings": "{\"protocol\":\"h2c\"}"}}'}`,
			isTarget: true, kinds: all, settings: inH2C,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var object httpv1alpha1.HTTPScaledObject
			text := `{metadata: {name: shop, ` + test.metadata + `}, spec: {hosts: [shop.test], pathPrefixes: [/a],
				headers: [{name: x}], scaleTargetRef: {service: shop, portName: http}}, status: ` + test.status + `}`
			if err := yaml.UnmarshalStrict([]byte(text), &object); err != nil {
				t.Fatal(err)
			}
			var want autowire.Target
			if test.isTarget {
				want = autowire.Target{
					Name: "shop", Hosts: []string{"shop.test"}, PathPrefixes: []string{"/a"}, IsPartial: true, Service: "shop",
					IsShared: test.isShared, IsProgrammed: test.isProgrammed, Unsupported: test.unsupportedKinds,
					Certificate: test.certificate, HasAffinity: test.hasAffinity,
					Settings: test.settings, AreSettingsPending: test.isPending,
					AutowireService: test.from, Fallback: test.fallback, Weighted: test.weighted,
				}
				want.Port.Name = "http"
				for kind := range strings.FieldsSeq(test.kinds) {
					want.Kinds = append(want.Kinds, trigger.AutowireKind(kind))
				}
			}
			got, isTarget := autowire.TargetOf(&object, "keda")
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || isTarget != test.isTarget {
				t.Errorf("a target: %v (-want +got):\n%s", isTarget, diff)
			}
		})
	}
}
