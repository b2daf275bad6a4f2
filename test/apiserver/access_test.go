package apiserver_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// The ServiceAccounts that the product runs as.
const (
	rolloutsAccount    = "system:serviceaccount:argo-rollouts:argo-rollouts"
	interceptorAccount = "system:serviceaccount:keda:kedify-http-interceptor"
	scalerAccount      = "system:serviceaccount:keda:kedify-http-scaler"
)

// grantedPermissions are the rights that our manifests give: no more than the product uses, each with its purpose.
func grantedPermissions() map[string]map[string]string {
	return map[string]map[string]string{
		routerRoleFile: {
			"get httpscaledobjects.http.keda.sh":   "the live object, before a write and at the full weight",
			"list httpscaledobjects.http.keda.sh":  "the cache",
			"watch httpscaledobjects.http.keda.sh": "the cache",
			"patch httpscaledobjects.http.keda.sh": "the two annotations",
		},
		interceptorRoleFile: {
			"list httpscaledobjects.http.keda.sh":  "what to route",
			"watch httpscaledobjects.http.keda.sh": "what to route",
			"patch httpscaledobjects.http.keda.sh": "the annotation status, where the installed definition has " +
				"no place for the report",
			"patch httpscaledobjects.http.keda.sh/status": "conditions and the report, by server-side apply",
			"list services":  "ports and protocols",
			"watch services": "ports and protocols",
			"list endpointslices.discovery.k8s.io": "where requests go, and which " +
				"proxies there are",
			"watch endpointslices.discovery.k8s.io": "where requests go, and which " +
				"proxies there are",
			"list configmaps":  "waiting pages",
			"watch configmaps": "waiting pages",
			"list configmaps/kedify-proxy-template-values":                   "settings of Envoy",
			"watch configmaps/kedify-proxy-template-values":                  "settings of Envoy",
			"list configmaps/kedify-proxy-template-values-global in keda":    "settings of Envoy for all",
			"watch configmaps/kedify-proxy-template-values-global in keda":   "settings of Envoy for all",
			"create events.events.k8s.io":                                    "a mistake told to its owner",
			"create leases.coordination.k8s.io in keda":                      "the election",
			"get leases.coordination.k8s.io/kedify-http-interceptor in keda": "the election",
			"update leases.coordination.k8s.io/kedify-http-interceptor in keda": "the election; client-go knows no " +
				"patch here",
			"watch leases.coordination.k8s.io/kedify-http-interceptor in keda": "to take over at once from a replica " +
				"that ends in good order",
			"list endpointslices.discovery.k8s.io in keda": "the other replicas and the shared " +
				"proxies, where the cluster role is bound in some namespaces only",
			"watch endpointslices.discovery.k8s.io in keda": "the other replicas and the shared " +
				"proxies, where the cluster role is bound in some namespaces only",
		},
		tlsRoleFile: {
			"list secrets":  "a certificate, by the Secret's name, where somebody has bound the role",
			"watch secrets": "a certificate, by the Secret's name, where somebody has bound the role",
		},
		scalerRoleFile: {
			"list httpscaledobjects.http.keda.sh":           "which targets are in a canary",
			"watch httpscaledobjects.http.keda.sh":          "which targets are in a canary",
			"list rollouts.argoproj.io":                     "which targets are in a canary",
			"watch rollouts.argoproj.io":                    "which targets are in a canary",
			"list endpointslices.discovery.k8s.io in keda":  "the replicas of the interceptor",
			"watch endpointslices.discovery.k8s.io in keda": "the replicas of the interceptor",
		},
	}
}

// controllerPermissions are the rights of the Argo Rollouts controller that the router uses. Its own installation grants them, among
// many more.
func controllerPermissions() map[string]string {
	return map[string]string{
		"get leases.coordination.k8s.io": "whether an interceptor lives",
		"get endpoints":                  "whether a promotion is safe",
		"get rollouts.argoproj.io":       "whether an owner's mark is true",
		"create events":                  "a warning about a promotion",
	}
}

// forbiddenPermissions are rights that the product must not have. Those of the controller's account that Argo Rollouts grants it,
// Secrets among them, are not ours to refuse, so the router's are asked of an account that has our role alone.
func forbiddenPermissions() map[string][]string {
	common := []string{
		"get secrets", "list secrets", "watch secrets", "get configmaps", "list nodes", "create pods",
		"create pods/exec", "delete pods",
		"create httpscaledobjects.http.keda.sh", "update httpscaledobjects.http.keda.sh",
		"delete httpscaledobjects.http.keda.sh",
		"deletecollection httpscaledobjects.http.keda.sh", "update httpscaledobjects.http.keda.sh/status",
		"patch services", "update services", "patch endpointslices.discovery.k8s.io",
		"get customresourcedefinitions.apiextensions.k8s.io",
		"create clusterrolebindings.rbac.authorization.k8s.io", "create serviceaccounts/token", "impersonate users",
	}
	return map[string][]string{
		interceptorAccount: append([]string{
			"get httpscaledobjects.http.keda.sh", "get pods", "list pods", "watch pods", "get services",
			"get endpointslices.discovery.k8s.io",
			"create events", "patch events.events.k8s.io", "create leases.coordination.k8s.io in shop",
			"get leases.coordination.k8s.io/other in keda",
			"update leases.coordination.k8s.io/other in keda", "watch leases.coordination.k8s.io/other in keda",
			"watch leases.coordination.k8s.io in keda",
			"patch leases.coordination.k8s.io/kedify-http-interceptor in keda",
			"delete leases.coordination.k8s.io/kedify-http-interceptor in keda", "get rollouts.argoproj.io",
		}, common...),
		scalerAccount: append([]string{
			"list configmaps", "get httpscaledobjects.http.keda.sh", "patch httpscaledobjects.http.keda.sh",
			"patch httpscaledobjects.http.keda.sh/status",
			"get rollouts.argoproj.io", "patch rollouts.argoproj.io", "get pods", "list pods", "list services",
			"list endpointslices.discovery.k8s.io in shop", "create events", "create events.events.k8s.io",
			"get leases.coordination.k8s.io in keda",
		}, common...),
		routerOnly: append([]string{
			"list configmaps", "patch httpscaledobjects.http.keda.sh/status", "list services",
			"list endpointslices.discovery.k8s.io", "list pods", "create events",
			"get leases.coordination.k8s.io", "get rollouts.argoproj.io",
		}, common...),
		settingsOnly: {"list configmaps", "list configmaps/kedify-proxy-template-values-global",
			"get configmaps/kedify-proxy-template-values", "list services"},
		rolloutsAccount: {
			"create httpscaledobjects.http.keda.sh", "update httpscaledobjects.http.keda.sh",
			"delete httpscaledobjects.http.keda.sh",
			"patch httpscaledobjects.http.keda.sh/status", "update httpscaledobjects.http.keda.sh/status",
		},
	}
}

// routerOnly is an account that has the router's role and nothing else.
const routerOnly = "system:serviceaccount:default:router-alone"

// routerOnlyBinding gives it.
const routerOnlyBinding = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: router-alone}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: argo-rollouts-kedify-http}
subjects: [{kind: ServiceAccount, name: router-alone, namespace: default}]
`

// settingsOnly is an account that may read settings of Envoy and nothing else: the interceptor may read any ConfigMap
// by its role for pages.
const settingsOnly = "system:serviceaccount:default:settings-alone"

// settingsOnlyBinding gives it.
const settingsOnlyBinding = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: settings-alone}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: kedify-http-interceptor-settings}
subjects: [{kind: ServiceAccount, name: settings-alone, namespace: default}]
`

// TestRolesGrantOnlyUsedPermissions compares the manifests, word for word, with the table. That the product uses each
// is TestTheProductUsesItsRights.
func TestRolesGrantOnlyUsedPermissions(t *testing.T) {
	t.Parallel()
	for file, rights := range grantedPermissions() {
		if diff := cmp.Diff(slices.Sorted(maps.Keys(rights)), permissionsIn(t, file)); diff != "" {
			t.Errorf("%s (-table +manifest):\n%s", file, diff)
		}
	}
}

// TestAuthorizerAgrees asks the authorizer about each right, as it stands after the official installation of Argo
// Rollouts and ours.
func TestAuthorizerAgrees(t *testing.T) {
	t.Parallel()
	shared.apply(t, "", routerOnlyBinding)
	shared.apply(t, "", settingsOnlyBinding)
	allowed := map[string][]string{
		interceptorAccount: slices.Sorted(maps.Keys(grantedPermissions()[interceptorRoleFile])),
		scalerAccount:      slices.Sorted(maps.Keys(grantedPermissions()[scalerRoleFile])),
		rolloutsAccount: slices.Concat(slices.Sorted(maps.Keys(grantedPermissions()[routerRoleFile])),
			slices.Sorted(maps.Keys(controllerPermissions()))),
		routerOnly: slices.Sorted(maps.Keys(grantedPermissions()[routerRoleFile])),
		settingsOnly: {"list configmaps/kedify-proxy-template-values",
			"watch configmaps/kedify-proxy-template-values"},
	}
	for want, table := range map[bool]map[string][]string{true: allowed, false: forbiddenPermissions()} {
		for account, rights := range table {
			for _, right := range rights {
				if got := shared.isAllowed(t, account, right); got != want {
					t.Errorf("%s may %s: %v, want %v", account, right, got, want)
				}
			}
		}
	}
}

// isAllowed asks whether an account has a right.
func (c *cluster) isAllowed(t *testing.T, account, permission string) bool {
	t.Helper()
	parts := strings.Split(account, ":")
	review := authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: account,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + parts[2],
			"system:authenticated"},
		ResourceAttributes: attributesOf(permission),
	}}
	review.APIVersion, review.Kind = "authorization.k8s.io/v1", "SubjectAccessReview"
	body, err := json.Marshal(review)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.admin.Post().AbsPath("/apis/authorization.k8s.io/v1/subjectaccessreviews").
		SetHeader("Content-Type", "application/json").Body(body).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(answer, &review); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

// attributesOf reads "verb resource.group/subresource-or-name in namespace". What follows the slash is the name for
// Leases and ConfigMaps, and a subresource for others.
func attributesOf(permission string) *authorizationv1.ResourceAttributes {
	permission, namespace, _ := strings.Cut(permission, " in ")
	verb, resource, _ := strings.Cut(permission, " ")
	resource, detail, _ := strings.Cut(resource, "/")
	resource, group, _ := strings.Cut(resource, ".")
	attributes := &authorizationv1.ResourceAttributes{Verb: verb, Resource: resource, Group: group,
		Namespace: namespace}
	if resource == "leases" || resource == "configmaps" {
		attributes.Name = detail
	} else {
		attributes.Subresource = detail
	}
	return attributes
}

// permissionsIn lists what the roles of a manifest grant, in the notation of the tables.
func permissionsIn(t *testing.T, file string) []string {
	t.Helper()
	manifest, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer manifest.Close()
	var rights []string
	reader := utilyaml.NewYAMLReader(bufio.NewReader(manifest))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			slices.Sort(rights)
			return rights
		}
		if err != nil {
			t.Fatal(err)
		}
		var role rbacv1.Role // a ClusterRole has the same fields, and no namespace
		if err := yaml.Unmarshal(document, &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			rights = append(rights, permissionsOf(rule, role.Namespace)...)
		}
	}
}

// permissionsOf lists what one rule grants.
func permissionsOf(rule rbacv1.PolicyRule, namespace string) []string {
	var rights []string
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, name := range append(rule.ResourceNames, "")[:max(1, len(rule.ResourceNames))] {
				for _, verb := range rule.Verbs {
					rights = append(rights, permissionName(verb, group, resource, name, namespace))
				}
			}
		}
	}
	return rights
}

// permissionName writes a right as the tables do. resource may have a subresource.
func permissionName(verb, group, resource, name, namespace string) string {
	resource, subresource, _ := strings.Cut(resource, "/")
	var text strings.Builder
	for _, part := range []struct{ before, text string }{{"", verb}, {" ", resource}, {".", group}, {"/", subresource},
		{"/", name}, {" in ", namespace}} {
		if part.text != "" {
			text.WriteString(part.before + part.text)
		}
	}
	return text.String()
}
