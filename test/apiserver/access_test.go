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

// The ServiceAccounts of the product.
const (
	rolloutsAccount    = "system:serviceaccount:argo-rollouts:argo-rollouts"
	interceptorAccount = "system:serviceaccount:keda:kedify-http-interceptor"
	scalerAccount      = "system:serviceaccount:keda:kedify-http-scaler"
)

// grantedPermissions are the permissions that our manifests grant, with their purpose: only those that the product
// uses.
func grantedPermissions() map[string]map[string]string {
	return map[string]map[string]string{
		routerRoleFile: {
			"get httpscaledobjects.http.keda.sh":   "the live object, before a write and at the full weight",
			"list httpscaledobjects.http.keda.sh":  "the cache",
			"watch httpscaledobjects.http.keda.sh": "the cache",
			"patch httpscaledobjects.http.keda.sh": "the two annotations",
			"get interceptorroutes.http.keda.sh":   "the live object, of Rollouts that name one",
			"list interceptorroutes.http.keda.sh":  "the cache, of Rollouts that name one",
			"watch interceptorroutes.http.keda.sh": "the cache, of Rollouts that name one",
			"patch interceptorroutes.http.keda.sh": "the two annotations, of Rollouts that name one",
		},
		interceptorRoleFile: {
			"list httpscaledobjects.http.keda.sh":  "what to route",
			"watch httpscaledobjects.http.keda.sh": "what to route",
			"patch httpscaledobjects.http.keda.sh": "the annotation status, if the installed CRD lacks " +
				"the report",
			"patch httpscaledobjects.http.keda.sh/status": "conditions and the report, by server-side apply",
			"list interceptorroutes.http.keda.sh":         "what to route",
			"watch interceptorroutes.http.keda.sh":        "what to route",
			"patch interceptorroutes.http.keda.sh":        "the annotation status: the CRD lacks the report",
			"patch interceptorroutes.http.keda.sh/status": "conditions, by server-side apply",
			"list services":  "ports and protocols",
			"watch services": "ports and protocols",
			"list endpointslices.discovery.k8s.io": "endpoints of backends, and " +
				"proxies",
			"watch endpointslices.discovery.k8s.io": "endpoints of backends, and " +
				"proxies",
			"list configmaps":  "waiting pages",
			"watch configmaps": "waiting pages",
			"list configmaps/kedify-proxy-template-values":                   "settings of Envoy",
			"watch configmaps/kedify-proxy-template-values":                  "settings of Envoy",
			"list configmaps/kedify-proxy-template-values-global in keda":    "settings of Envoy for all",
			"watch configmaps/kedify-proxy-template-values-global in keda":   "settings of Envoy for all",
			"create events.events.k8s.io":                                    "a validation error",
			"create leases.coordination.k8s.io in keda":                      "the election",
			"get leases.coordination.k8s.io/kedify-http-interceptor in keda": "the election",
			"update leases.coordination.k8s.io/kedify-http-interceptor in keda": "the election; it writes the whole " +
				"Lease",
			"watch leases.coordination.k8s.io/kedify-http-interceptor in keda": "to take over immediately from a " +
				"replica that shuts down",
			"list endpointslices.discovery.k8s.io in keda": "the other replicas and the shared " +
				"proxies, if the cluster role is bound only in some namespaces",
			"watch endpointslices.discovery.k8s.io in keda": "the other replicas and the shared " +
				"proxies, if the cluster role is bound only in some namespaces",
			"list services/kedify-proxy in keda":                "how the shared proxies are authenticated, in the same case",
			"watch services/kedify-proxy in keda":               "how the shared proxies are authenticated, in the same case",
			"list secrets/kedify-http-interceptor-tls in keda":  "its own certificate",
			"watch secrets/kedify-http-interceptor-tls in keda": "its own certificate",
			"create tokenreviews.authentication.k8s.io":         "the token of a proxy, of the scaler, and of a user of the live page",
			"create subjectaccessreviews.authorization.k8s.io":  "what a user of the live page may read",
			"get rollouts.argoproj.io":                          "steps and replicas on the live page",
			"get deployments.apps":                              "replicas on the live page",
			"list events":                                       "Events on the live page",
		},
		tlsRoleFile: {
			"list secrets":  "a certificate, by the Secret's name, if a user has bound the role",
			"watch secrets": "a certificate, by the Secret's name, if a user has bound the role",
		},
		podsRoleFile: {
			"get pods": "the Pod of a proxy whose address several fleets claim, if a user has bound the role",
		},
		scalerRoleFile: {
			"list interceptorroutes.http.keda.sh":                 "which InterceptorRoutes are in a canary",
			"watch interceptorroutes.http.keda.sh":                "which InterceptorRoutes are in a canary",
			"list httpscaledobjects.http.keda.sh":                 "which targets are in a canary",
			"watch httpscaledobjects.http.keda.sh":                "which targets are in a canary",
			"list rollouts.argoproj.io":                           "which targets are in a canary",
			"watch rollouts.argoproj.io":                          "which targets are in a canary",
			"list endpointslices.discovery.k8s.io in keda":        "the replicas of the interceptor",
			"watch endpointslices.discovery.k8s.io in keda":       "the replicas of the interceptor",
			"list configmaps/kedify-http-interceptor-ca in keda":  "the CAs of their certificate",
			"watch configmaps/kedify-http-interceptor-ca in keda": "the CAs of their certificate",
		},
	}
}

// interceptorPermissions are all permissions of the interceptor that need no binding by users.
func interceptorPermissions() []string {
	return slices.Sorted(maps.Keys(grantedPermissions()[interceptorRoleFile]))
}

// controllerPermissions are the permissions of the Argo Rollouts controller that the router uses. The installation of
// Argo Rollouts grants these and many more.
func controllerPermissions() map[string]string {
	return map[string]string{
		"get leases.coordination.k8s.io": "whether an interceptor is alive",
		"get endpoints":                  "whether a promotion is safe",
		"get rollouts.argoproj.io":       "whether an owner's mark is true",
		"create events":                  "a warning about a promotion",
	}
}

// forbiddenPermissions are permissions that the product must not have. Argo Rollouts grants its controller some of
// them, such as Secrets, so the router's are checked for an account with only our role.
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
			"delete leases.coordination.k8s.io/kedify-http-interceptor in keda", "list rollouts.argoproj.io",
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
		settingsOnly: {
			"list configmaps", "list configmaps/kedify-proxy-template-values-global",
			"get configmaps/kedify-proxy-template-values", "list services",
		},
		rolloutsAccount: {
			"create httpscaledobjects.http.keda.sh", "update httpscaledobjects.http.keda.sh",
			"delete httpscaledobjects.http.keda.sh",
			"patch httpscaledobjects.http.keda.sh/status", "update httpscaledobjects.http.keda.sh/status",
		},
	}
}

// routerOnly is an account with only the role of the router.
const routerOnly = "system:serviceaccount:default:router-alone"

// routerOnlyBinding binds the role.
const routerOnlyBinding = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: router-alone}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: argo-rollouts-kedify-http}
subjects: [{kind: ServiceAccount, name: router-alone, namespace: default}]
`

// settingsOnly is an account that is only allowed to read Envoy settings: the role for waiting pages allows the
// interceptor to read any ConfigMap.
const settingsOnly = "system:serviceaccount:default:settings-alone"

// settingsOnlyBinding binds the role.
const settingsOnlyBinding = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: settings-alone}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: kedify-http-interceptor-settings}
subjects: [{kind: ServiceAccount, name: settings-alone, namespace: default}]
`

// TestRolesGrantOnlyUsedPermissions compares the manifests with the table. TestGrantedPermissionsAreUsed expects that
// the product uses each permission.
func TestRolesGrantOnlyUsedPermissions(t *testing.T) {
	t.Parallel()
	for file, rights := range grantedPermissions() {
		if diff := cmp.Diff(slices.Sorted(maps.Keys(rights)), permissionsIn(t, file)); diff != "" {
			t.Errorf("%s (-table +manifest):\n%s", file, diff)
		}
	}
}

// TestAuthorizerAgrees checks each permission with the authorizer, after the installation of Argo Rollouts and of this
// project.
func TestAuthorizerAgrees(t *testing.T) {
	t.Parallel()
	shared.apply(t, "", routerOnlyBinding)
	shared.apply(t, "", settingsOnlyBinding)
	allowed := map[string][]string{
		interceptorAccount: interceptorPermissions(),
		scalerAccount:      slices.Sorted(maps.Keys(grantedPermissions()[scalerRoleFile])),
		rolloutsAccount: slices.Concat(slices.Sorted(maps.Keys(grantedPermissions()[routerRoleFile])),
			slices.Sorted(maps.Keys(controllerPermissions()))),
		routerOnly: slices.Sorted(maps.Keys(grantedPermissions()[routerRoleFile])),
		settingsOnly: {
			"list configmaps/kedify-proxy-template-values",
			"watch configmaps/kedify-proxy-template-values",
		},
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

// isAllowed reports whether an account has a permission.
func (c *cluster) isAllowed(t *testing.T, account, permission string) bool {
	t.Helper()
	parts := strings.Split(account, ":")
	review := authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: account,
		Groups: []string{
			"system:serviceaccounts", "system:serviceaccounts:" + parts[2],
			"system:authenticated",
		},
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

// attributesOf parses "verb resource.group/subresource-or-name in namespace". The part after the slash is the name for
// Leases, ConfigMaps, Secrets and Services, and a subresource for other resources.
func attributesOf(permission string) *authorizationv1.ResourceAttributes {
	permission, namespace, _ := strings.Cut(permission, " in ")
	verb, resource, _ := strings.Cut(permission, " ")
	resource, detail, _ := strings.Cut(resource, "/")
	resource, group, _ := strings.Cut(resource, ".")
	attributes := &authorizationv1.ResourceAttributes{
		Verb: verb, Resource: resource, Group: group,
		Namespace: namespace,
	}
	if slices.Contains([]string{"leases", "configmaps", "secrets", "services"}, resource) {
		attributes.Name = detail
	} else {
		attributes.Subresource = detail
	}
	return attributes
}

// permissionsIn lists the permissions in the roles of a manifest, in the notation of the tables.
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

// permissionsOf lists the permissions in one rule.
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

// permissionName returns a permission in the notation of the tables. resource can have a subresource.
func permissionName(verb, group, resource, name, namespace string) string {
	resource, subresource, _ := strings.Cut(resource, "/")
	var text strings.Builder
	for _, part := range []struct{ before, text string }{
		{"", verb},
		{" ", resource},
		{".", group},
		{"/", subresource},
		{"/", name},
		{" in ", namespace},
	} {
		if part.text != "" {
			text.WriteString(part.before + part.text)
		}
	}
	return text.String()
}
