package desired_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
)

// TestForwarding has triggers whose Service may be taken over: to which Service the proxies forward.
func TestForwarding(t *testing.T) {
	t.Parallel()
	const rollout = `{metadata: {name: shop}, spec: {strategy: {canary: {stableService: shop-stable, canaryService: shop-canary}}}}`
	const pingPong = `{metadata: {name: shop}, spec: {strategy: {canary: {pingPong: {pingService: ping, pongService: pong}}}}}`
	const blueGreen = `{metadata: {name: shop}, spec: {strategy: {blueGreen: {activeService: active, previewService: preview}}}}`
	const managed = `InvalidTrigger: spec.triggers[0].metadata.service: "%s" is a Service of Rollout "shop", whose controller writes its selector; name another one`
	for name, test := range map[string]struct {
		metadata, rollout string // a Deployment is the target without a Rollout
		to, says          string
	}{
		"its default name":            {`service: shop`, "", "shop-fallback", ""},
		"its own name":                {`service: shop, fallbackService: shop-direct`, "", "shop-direct", ""},
		"the same name":               {`service: shop, fallbackService: shop`, "", "", `InvalidTrigger: spec.triggers[0].metadata.fallbackService: "shop" is the Service that clients call, so the proxies would send requests to themselves; name another one`},
		"a long name":                 {`service: ` + strings.Repeat("a", 60), "", "", `InvalidTrigger: spec.triggers[0].metadata.fallbackService: "` + strings.Repeat("a", 60) + `-fallback" is no name of a Service (`},
		"no Service":                  {`fallbackService: shop-direct`, "", "", "InvalidTrigger: spec.triggers[0].metadata.service: required with trafficAutowire: service; name the Service that clients call"},
		"a Rollout":                   {`service: shop`, rollout, "shop-stable", ""},
		"a Rollout and its Service":   {`service: shop, fallbackService: shop-stable`, rollout, "shop-stable", ""},
		"a Rollout, another Service":  {`service: shop, fallbackService: shop-direct`, rollout, "shop-stable", `KeyIgnored: spec.triggers[0].metadata.fallbackService: "shop-direct" is ignored, because the proxies forward to the stable Service "shop-stable" of Rollout "shop"; remove it`},
		"the stable Service":          {`service: shop-stable`, rollout, "", strings.Replace(managed, "%s", "shop-stable", 1)},
		"the canary Service":          {`service: shop-canary`, rollout, "", strings.Replace(managed, "%s", "shop-canary", 1)},
		"one of two stable Services":  {`service: ping`, pingPong, "", strings.Replace(managed, "%s", "ping", 1)},
		"the preview Service":         {`service: preview`, blueGreen, "", strings.Replace(managed, "%s", "preview", 1)},
		"a blue-green deployment":     {`service: shop`, blueGreen, "active", ""},
		"a Rollout that is not there": {`service: shop`, `{}`, "shop-fallback", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scaled := shop(t, `[{type: kedify-http, metadata: {hosts: a.test, port: "80", trafficAutowire: service, `+test.metadata+`}}]`)
			var rollout *apis.Rollout
			if test.rollout == "" {
				scaled.Spec.ScaleTargetRef = apis.ScaleTargetRef{Name: "shop"}
			} else {
				rollout = read[apis.Rollout](t, test.rollout)
			}
			want := desired.Desired(scaled, rollout, address)[0]
			to, from, fallback := "", "", ""
			if want.Object != nil {
				to = want.Object.Spec.ScaleTargetRef.Service
				from = want.Object.Annotations[httpv1alpha1.AnnotationAutowireService]
				fallback = want.Object.Annotations[httpv1alpha1.AnnotationFallbackService]
			}
			if to != test.to || fallback != test.to || (from == "shop") != (test.to != "") {
				t.Errorf("forwards to %q, from %q with %q, want %q", to, from, fallback, test.to)
			}
			var texts []string
			for _, problem := range want.Problems {
				texts = append(texts, problem.Reason+": "+problem.Message)
			}
			says := strings.Join(texts, "")
			if !strings.HasPrefix(says, test.says) || says != "" && test.says == "" {
				t.Errorf("problems %q, want %q", says, test.says)
			}
		})
	}
}

// TestKeepForwarding has the Services of an existing and of the desired HTTPScaledObject, and their states: to which one
// the proxies forward now.
func TestKeepForwarding(t *testing.T) {
	t.Parallel()
	object := func(to, from string) *httpv1alpha1.HTTPScaledObject {
		if to == "" {
			return nil
		}
		made := &httpv1alpha1.HTTPScaledObject{}
		made.Name, made.Spec.ScaleTargetRef.Service = "shop", to
		made.Labels = map[string]string{httpv1alpha1.LabelManagedBy: httpv1alpha1.ManagedByAgent}
		made.OwnerReferences = []metav1.OwnerReference{{APIVersion: "keda.sh/v1alpha1", Kind: "ScaledObject", Name: "shop", Controller: new(true)}}
		if from != "" {
			made.Annotations = map[string]string{httpv1alpha1.AnnotationAutowireService: from}
		}
		return made
	}
	taken, ready := desired.Service{IsTakenOver: true, HasEndpoints: true}, desired.Service{HasEndpoints: true}
	for name, test := range map[string]struct {
		current, currentFrom, wanted, wantedFrom string
		services                                 map[string]desired.Service
		to                                       string // none if nothing is written
		isPending                                bool
	}{
		"a new object, no fallback Service":       {"", "", "direct", "shop", map[string]desired.Service{"shop": ready}, "shop", true},
		"a new object, a fallback Service":        {"", "", "direct", "shop", map[string]desired.Service{"shop": ready, "direct": ready}, "direct", false},
		"a new object, taken over, no fallback":   {"", "", "direct", "shop", map[string]desired.Service{"shop": taken}, "direct", false},
		"a new object for what is taken over":     {"", "", "shop", "", map[string]desired.Service{"shop": taken}, "", true},
		"opting in, no fallback Service":          {"shop", "", "direct", "shop", map[string]desired.Service{"shop": ready}, "shop", true},
		"opting in, a fallback Service":           {"shop", "", "direct", "shop", map[string]desired.Service{"shop": ready, "direct": ready}, "direct", false},
		"waiting for the fallback Service":        {"shop", "shop", "direct", "shop", map[string]desired.Service{"shop": ready}, "", true},
		"opting out, taken over":                  {"direct", "shop", "shop", "", map[string]desired.Service{"shop": taken, "direct": ready}, "direct", true},
		"opting out, restored":                    {"direct", "", "shop", "", map[string]desired.Service{"shop": ready, "direct": ready}, "shop", false},
		"another fallback Service, not there yet": {"direct", "shop", "other", "shop", map[string]desired.Service{"shop": taken, "direct": ready}, "", true},
		"another fallback Service":                {"direct", "shop", "other", "shop", map[string]desired.Service{"shop": taken, "direct": ready, "other": ready}, "other", false},
		"a fallback Service that is taken over":   {"direct", "shop", "other", "shop", map[string]desired.Service{"shop": taken, "direct": ready, "other": taken}, "", true},
		"no Service is taken over":                {"a", "", "b", "", nil, "b", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			current, want := object(test.current, test.currentFrom), object(test.wanted, test.wantedFrom)
			changes := desired.Changes{Conditions: map[string][]metav1.Condition{"shop": nil}}
			var existing []*httpv1alpha1.HTTPScaledObject
			if current == nil {
				changes.Create = []*httpv1alpha1.HTTPScaledObject{want}
			} else {
				existing, changes.Update = append(existing, current), []*httpv1alpha1.HTTPScaledObject{want}
			}
			isPending := changes.KeepForwarding(existing, test.services)
			to := ""
			for _, written := range append(changes.Create, changes.Update...) {
				to = written.Spec.ScaleTargetRef.Service
			}
			if diff := cmp.Diff(test.to, to); diff != "" || isPending != test.isPending {
				t.Errorf("pending: %v, want %v; Service (-want +got):\n%s", isPending, test.isPending, diff)
			}
			if _, isReported := changes.Conditions["shop"]; isReported != (test.to != "" || test.current != "") {
				t.Errorf("condition of the object: %v", isReported)
			}
		})
	}
}
