package autowire_test

import (
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
)

// TestIngressClasses has Ingresses whose IngressClass, by its controller, needs NodePorts or not.
func TestIngressClasses(t *testing.T) {
	t.Parallel()
	const mismatch, wired = "ServiceTypeMismatch: Ingress web, shop.test/: ", "Wired: Ingress web, shop.test/"
	const aws, google = "an AWS Application Load Balancer needs", "a Google Cloud load balancer needs"
	of := func(name string) string {
		return strings.Replace(store("/"), "spec: {", "spec: {ingressClassName: "+name+", ", 1)
	}
	class := func(name, controller string, more ...string) string {
		return `{metadata: {name: ` + name + strings.Join(more, "") + `}, spec: {controller: ` + controller + `}}`
	}
	const byDefault = `, annotations: {ingressclass.kubernetes.io/is-default-class: "true"}`
	params := `{metadata: {name: public}, spec: {controller: ingress.k8s.aws/alb, parameters: {kind: IngressClassParams, name: a}}}`
	tests := map[string]struct {
		ingress string
		classes string
		says    string
	}{
		"AWS by controller":         {of("public"), class("public", "ingress.k8s.aws/alb"), mismatch + aws},
		"EKS Auto Mode":             {of("public"), class("public", "eks.amazonaws.com/alb"), mismatch + aws},
		"Google by controller":      {of("public"), class("public", "k8s.io/ingress-gce"), mismatch + google},
		"nginx":                     {of("public"), class("public", "k8s.io/ingress-nginx"), wired},
		"a class that is called so": {of("alb"), class("alb", "k8s.io/ingress-nginx"), wired},
		"class in the annotation":   {store("/", "kubernetes.io/ingress.class", "public"), class("public", "ingress.k8s.aws/alb"), mismatch + aws},
		"unknown class":             {of("public"), class("other", "ingress.k8s.aws/alb"), wired},
		"unknown class by name":     {of("alb"), class("other", "k8s.io/ingress-nginx"), mismatch + aws},
		"default":                   {store("/"), class("public", "ingress.k8s.aws/alb", byDefault), mismatch + aws},
		"default, of Google":        {store("/"), class("public", "k8s.io/ingress-gce", byDefault), mismatch + google},
		"another one is default":    {store("/"), class("public", "ingress.k8s.aws/alb") + ", " + class("inner", "k8s.io/ingress-nginx", byDefault), wired},
		"not the default":           {of("inner"), class("public", "ingress.k8s.aws/alb", byDefault) + ", " + class("inner", "traefik.io/ingress-controller"), wired},
		"the newest default": {
			store("/"), class("older", "k8s.io/ingress-nginx", byDefault, `, creationTimestamp: "2026-05-01T12:00:00Z"`) + ", " +
				class("newer", "ingress.k8s.aws/alb", byDefault, `, creationTimestamp: "2026-05-01T12:00:01Z"`), mismatch + aws,
		},
		"the first of two defaults":   {store("/"), class("b", "ingress.k8s.aws/alb", byDefault) + ", " + class("a", "k8s.io/ingress-nginx", byDefault), wired},
		"annotation, default class":   {store("/", alb+"scheme", "internal"), class("inner", "k8s.io/ingress-nginx", byDefault), mismatch + aws},
		"annotation of another class": {strings.Replace(store("/", alb+"scheme", "internal"), "spec: {", "spec: {ingressClassName: inner, ", 1), class("inner", "k8s.io/ingress-nginx"), wired},
		"Pods by the Ingress":         {strings.Replace(store("/", alb+"target-type", "ip"), "spec: {", "spec: {ingressClassName: public, ", 1), class("public", "eks.amazonaws.com/alb"), wired},
		"a class with parameters": {
			of("public"), params, mismatch + "an AWS Application Load Balancer needs a Service of type NodePort, and Service " +
				"kedify-proxy is none; set its spec.type to NodePort, or annotation alb.ingress.kubernetes.io/target-type: ip on it, " +
				"even if the parameters of IngressClass public contain it, which the agent does not read",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var classes []networkingv1.IngressClass
			if err := yaml.UnmarshalStrict([]byte("["+test.classes+"]"), &classes); err != nil {
				t.Fatal(err)
			}
			w := newFixture(t, test.ingress)
			w.Classes = autowire.ClassesOf(classes)
			w.Targets = []autowire.Target{target("shop", "shop.test")}
			w.expect(t, test.says)
		})
	}
}
