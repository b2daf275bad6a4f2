package chart

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// A partOff has the values that turn an optional part off, and what must disappear with it.
type partOff struct {
	set []string
	// rules are permissions as of granted. Each is there with on, by default the default values.
	rules []string
	on    []string
	// objects are the names of objects, and flags those of flags that must be there instead.
	objects, flags []string
}

// partsOff returns the optional parts by name.
func partsOff() map[string]partOff {
	const agentRole = "Role keda/kedify-http-agent-grants"
	wiring := []string{
		"agent: get ingresses.networking.k8s.io", "agent: list ingresses.networking.k8s.io",
		"agent: watch ingresses.networking.k8s.io", "agent: patch ingresses.networking.k8s.io",
		"agent: get httproutes.gateway.networking.k8s.io", "agent: list httproutes.gateway.networking.k8s.io",
		"agent: watch httproutes.gateway.networking.k8s.io", "agent: patch httproutes.gateway.networking.k8s.io",
		"agent: get virtualservices.networking.istio.io", "agent: list virtualservices.networking.istio.io",
		"agent: watch virtualservices.networking.istio.io", "agent: patch virtualservices.networking.istio.io",
		"agent: list destinationrules.networking.istio.io", "agent: watch destinationrules.networking.istio.io",
		"agent: get routes.route.openshift.io", "agent: list routes.route.openshift.io",
		"agent: watch routes.route.openshift.io", "agent: patch routes.route.openshift.io",
		"agent: get services", "agent: create services", "agent: patch services", "agent: delete services",
		"agent: list backendtlspolicies.gateway.networking.k8s.io",
		"agent: watch backendtlspolicies.gateway.networking.k8s.io",
		"agent: list ingressclasses.networking.k8s.io", "agent: watch ingressclasses.networking.k8s.io",
		"agent: list referencegrants.gateway.networking.k8s.io in keda",
		"agent: create referencegrants.gateway.networking.k8s.io in keda",
	}
	proxies := []string{
		"agent: create deployments.apps/kedify-proxy", "agent: patch deployments.apps/kedify-proxy",
		"agent: delete deployments.apps/kedify-proxy", "agent: list configmaps/kedify-proxy-bootstrap",
		"agent: create configmaps/kedify-proxy-bootstrap", "agent: patch services/kedify-proxy",
		"agent: create services/kedify-proxy-admin", "agent: list pods", "agent: list namespaces", "agent: watch namespaces",
		"agent: create scaledobjects.keda.sh/kedify-proxy", "agent: delete scaledobjects.keda.sh/kedify-proxy",
		"agent: list poddisruptionbudgets.policy/kedify-proxy", "agent: create poddisruptionbudgets.policy/kedify-proxy",
	}
	state := []string{
		"agent: list services", "agent: watch services", "agent: list endpointslices.discovery.k8s.io",
		"agent: list deployments.apps/kedify-proxy", "agent: watch deployments.apps/kedify-proxy",
	}
	webhook := []string{
		"agent: get mutatingwebhookconfigurations.admissionregistration.k8s.io/kedify-http-agent",
		"agent: patch mutatingwebhookconfigurations.admissionregistration.k8s.io/kedify-http-agent",
		"agent: get secrets/kedify-http-agent-webhook in keda", "agent: update secrets/kedify-http-agent-webhook in keda",
	}
	certificate := []string{
		"agent: get secrets/kedify-http-interceptor-tls in keda", "agent: update secrets/kedify-http-interceptor-tls in keda",
		"agent: get configmaps/kedify-http-interceptor-ca in keda", "agent: list pods",
		"agent: patch configmaps/kedify-http-interceptor-ca in keda",
		"interceptor: list secrets/kedify-http-interceptor-tls in keda",
		"interceptor: create tokenreviews.authentication.k8s.io",
		"scaler: list configmaps/kedify-http-interceptor-ca in keda",
	}
	return map[string]partOff{
		"autowire": {
			set: []string{"agent.autowire=false"}, rules: wiring, objects: []string{agentRole},
			flags: []string{"--autowire=false", "--restore-backends=false"},
		},
		"Services": {
			set:   []string{"agent.autowireServices=false"},
			rules: []string{"agent: get services", "agent: create services", "agent: patch services", "agent: delete services"},
		},
		"proxies": {set: []string{"agent.installProxies=false"}, rules: proxies, flags: []string{"--install-proxies=false"}},
		"autowire and proxies": {
			set:     []string{"agent.autowire=false", "agent.installProxies=false"},
			rules:   slices.Concat(wiring, proxies, state),
			objects: []string{agentRole, "ClusterRole kedify-http-agent-namespaces"},
		},
		"writes of ReferenceGrants": {
			set: []string{"agent.referenceGrants=false"},
			rules: []string{
				"agent: create referencegrants.gateway.networking.k8s.io in keda",
				"agent: patch referencegrants.gateway.networking.k8s.io in keda",
				"agent: delete referencegrants.gateway.networking.k8s.io in keda",
			},
			flags: []string{"--reference-grants=false"},
		},
		"shared proxies": {
			set: []string{"watchNamespaces={shop}"}, objects: []string{agentRole},
			rules: []string{"agent: list referencegrants.gateway.networking.k8s.io in keda"},
		},
		"webhook": {
			set: []string{"agent.webhook.enabled=false"}, rules: webhook, flags: []string{"--webhook-address="},
			objects: []string{
				"Service keda/kedify-http-agent", "MutatingWebhookConfiguration kedify-http-agent",
				"ClusterRole kedify-http-agent-webhook",
			},
		},
		"TLS": {
			set: []string{"interceptorTLS.enabled=false"}, rules: certificate, flags: []string{"--interceptor-tls-secret="},
		},
		"certificate of the agent": {
			set:   []string{"interceptorTLS.externalSecret=true"},
			rules: []string{"agent: update secrets/kedify-http-interceptor-tls in keda"},
			flags: []string{"--external-tls-secret"},
		},
		"webhook and TLS": {
			set: []string{"interceptorTLS.enabled=false", "agent.webhook.enabled=false"},
			rules: slices.Concat(webhook, certificate, []string{
				"agent: create secrets in keda",
			}),
		},
		"webhook and certificate of the agent": {
			set:   []string{"interceptorTLS.externalSecret=true", "agent.webhook.enabled=false"},
			rules: []string{"agent: create secrets in keda"},
		},
		"the live page": {
			set: []string{"interceptor.dashboard=false"},
			rules: []string{
				"interceptor: get rollouts.argoproj.io", "interceptor: get deployments.apps", "interceptor: list events",
				"interceptor: create subjectaccessreviews.authorization.k8s.io",
			},
			objects: []string{
				"ClusterRole kedify-http-interceptor-dashboard", "ClusterRole kedify-http-interceptor-reviews",
			},
			flags: []string{"--dashboard-address="},
		},
		"waiting pages": {
			set: []string{"interceptor.waitingPages=false"}, rules: []string{"interceptor: list configmaps"},
			objects: []string{"ClusterRole kedify-http-interceptor-pages"}, flags: []string{"--waiting-pages=false"},
		},
		"Envoy settings": {
			set: []string{"interceptor.envoySettings=false"}, flags: []string{"--envoy-settings=false"},
			rules: []string{
				"interceptor: list configmaps/kedify-proxy-template-values",
				"interceptor: list configmaps/kedify-proxy-template-values-global in keda",
			},
		},
		"Secrets of tenants": {
			on: []string{"interceptor.tlsNamespaces={shop}"}, rules: []string{"interceptor: list secrets in shop"},
		},
		"agent": {
			set: []string{"agent.enabled=false"}, rules: slices.Concat(wiring, proxies, state, webhook),
			objects: []string{"ServiceAccount keda/kedify-http-agent", "Deployment keda/kedify-http-agent"},
		},
		"scaler": {
			set: []string{"scaler.enabled=false"}, objects: []string{"ServiceAccount keda/kedify-http-scaler"},
			rules: []string{"scaler: list rollouts.argoproj.io", "scaler: list endpointslices.discovery.k8s.io in keda"},
		},
		"router kedify/http": {
			set: []string{"argoRollouts.kedifyHTTP.enabled=false"}, rules: []string{"argo-rollouts: patch httpscaledobjects.http.keda.sh"},
		},
		"router argoproj-labs/gatewayAPI": {
			on: []string{"argoRollouts.gatewayAPI.enabled=true"}, rules: []string{"argo-rollouts: update httproutes.gateway.networking.k8s.io"},
		},
	}
}

// TestPermissionsOfParts: with a part turned off, its permissions and objects are not there, and the flag that makes the
// program do without them is.
func TestPermissionsOfParts(t *testing.T) {
	t.Parallel()
	for name, part := range partsOff() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			on, off := with(t, part.on...), with(t, part.set...)
			before, after := granted(t, on), granted(t, off)
			for _, rule := range part.rules {
				if !before[rule] {
					t.Errorf("%s: not granted with the part: correct the table", rule)
				}
				if after[rule] {
					t.Errorf("%s: granted without the part", rule)
				}
			}
			for _, object := range part.objects {
				if on[object] == nil || off[object] != nil {
					t.Errorf("%s: %t with the part, and %t without it", object, on[object] != nil, off[object] != nil)
				}
			}
			text := fmt.Sprint(off)
			for _, flag := range part.flags {
				if !strings.Contains(text, flag) {
					t.Errorf("no Deployment has flag %s", flag)
				}
			}
		})
	}
}

// TestRestore: an agent that restores the backends has the permissions of one that changes them.
func TestRestore(t *testing.T) {
	t.Parallel()
	restoring := with(t, "agent.autowire=false", "agent.restoreBackends=true")
	if diff := cmp.Diff(granted(t, with(t)), granted(t, restoring)); diff != "" {
		t.Errorf("permissions (-autowire +restore):\n%s", diff)
	}
	if text := fmt.Sprint(restoring); strings.Contains(text, "--restore-backends=false") {
		t.Error("the agent does not restore")
	}
}

// TestNoEmptyRules: no combination of the agent's parts renders a role without rules, which would have no effect, or a
// port of the webhook without it.
func TestNoEmptyRules(t *testing.T) {
	t.Parallel()
	switches := []string{
		"agent.autowire", "agent.installProxies", "agent.webhook.enabled", "interceptorTLS.enabled", "agent.referenceGrants",
	}
	for mask := range 1 << len(switches) {
		var set []string
		for i, name := range switches {
			set = append(set, fmt.Sprintf("%s=%t", name, mask>>i&1 == 1))
		}
		for name, object := range with(t, set...) {
			rules, _ := object["rules"].([]any)
			if strings.Contains(name, "Role ") && !strings.Contains(name, "Webhook") && len(rules) == 0 {
				t.Errorf("%v: %s has no rules", set, name)
			}
			if strings.Contains(name, "Deployment") && strings.Contains(fmt.Sprint(object), "9443") != (mask>>2&1 == 1) &&
				strings.HasSuffix(name, "agent") {
				t.Errorf("%v: %s: the port of the webhook does not follow its value", set, name)
			}
		}
	}
}

// with returns the objects that values render.
func with(t *testing.T, set ...string) map[string]map[string]any {
	t.Helper()
	args := []string{"--skip-tests"}
	for _, value := range set {
		args = append(args, "--set", value)
	}
	return objects(t, strings.Join(set, ","), render(t, "keda", args...))
}

// granted returns the permissions of the ServiceAccounts, as "account: verb resource[.group][/name][ in namespace]". A
// ClusterRole that is bound in namespaces counts in these, and one without a binding grants nothing.
func granted(t *testing.T, all map[string]map[string]any) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		var binding rbacv1.RoleBinding // a ClusterRoleBinding has the same fields, and no namespace
		if !strings.Contains(name, "RoleBinding ") || !decode(t, all[name], &binding) {
			continue
		}
		var role rbacv1.Role
		reference := "ClusterRole " + binding.RoleRef.Name
		if binding.RoleRef.Kind == "Role" {
			reference = "Role " + binding.Namespace + "/" + binding.RoleRef.Name
		}
		if all[reference] == nil {
			t.Errorf("%s: %s does not exist", name, reference)
		}
		decode(t, all[reference], &role)
		account := strings.TrimPrefix(binding.Subjects[0].Name, "kedify-http-")
		for _, rule := range role.Rules {
			for _, text := range permissionsOf(rule, binding.Namespace) {
				found[account+": "+text] = true
			}
		}
	}
	return found
}

// permissionsOf returns the permissions of a rule.
func permissionsOf(rule rbacv1.PolicyRule, namespace string) (all []string) {
	for _, resource := range rule.Resources {
		if rule.APIGroups[0] != "" {
			resource += "." + rule.APIGroups[0]
		}
		names := slices.Clone(rule.ResourceNames)
		for i := range names {
			names[i] = "/" + names[i]
		}
		if len(names) == 0 {
			names = []string{""}
		}
		for _, name := range names {
			for _, verb := range rule.Verbs {
				text := verb + " " + resource + name
				if namespace != "" {
					text += " in " + namespace
				}
				all = append(all, text)
			}
		}
	}
	return all
}

// decode decodes an object.
func decode(t *testing.T, object map[string]any, into any) bool {
	t.Helper()
	text, err := yaml.Marshal(object)
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
	return true
}
