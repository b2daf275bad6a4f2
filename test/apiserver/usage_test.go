package apiserver_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	apitypes "k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/envoysettings"
	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/pluginprocess"
	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

// startPlugin starts the built plugin as the user of token.
func (c *cluster) startPlugin(t *testing.T, token string) *pluginprocess.Process {
	t.Helper()
	return pluginprocess.Run(t, filepath.Join(c.folder, "rollouts-plugin-kedify"), c.kubeconfig(t, token))
}

// rollout returns a canary Rollout that names an HTTPScaledObject with the same name.
func rollout(namespace, name string) *v1alpha1.Rollout {
	r := routertest.Rollout(httpso.Type, fmt.Sprintf(`{"httpScaledObjectName":%q}`, name))
	r.Namespace, r.Name, r.UID = namespace, name, apitypes.UID("uid-of-"+name)
	r.Spec.Strategy.Canary.StableService, r.Spec.Strategy.Canary.CanaryService = name+"-stable", name+"-canary"
	r.Spec.Replicas = new(int32)
	*r.Spec.Replicas = 2
	return r
}

// must fails the test if the result of a call is an error.
func must(t *testing.T, call string, answer types.RpcError) {
	t.Helper()
	if answer.HasError() {
		t.Fatalf("%s: %v", call, answer)
	}
}

// TestGrantedPermissionsAreUsed runs the built plugin, interceptor and scaler as their ServiceAccounts through all
// their requests to the API server. The used permissions must be exactly those in the tables, and no request is
// forbidden.
func TestGrantedPermissionsAreUsed(t *testing.T) {
	const namespace = "usage"
	shared.newNamespace(t, namespace)
	useAsInterceptor(t, namespace)
	useCertificate(t)
	useSomeNamespaces(t, namespace)
	useDashboard(t, namespace)
	useAsRouter(t, namespace)
	useAsScaler(t)

	used := usedPermissions(t, interceptorAccount)
	if diff := cmp.Diff(interceptorPermissions(), slices.Sorted(slices.Values(used))); diff != "" {
		t.Errorf("permissions of the interceptor (-table +audit log):\n%s", diff)
	}
	wanted := slices.Sorted(maps.Keys(grantedPermissions()[scalerRoleFile]))
	if diff := cmp.Diff(wanted, usedPermissions(t, scalerAccount)); diff != "" {
		t.Errorf("permissions of the scaler (-table +audit log):\n%s", diff)
	}
	wanted = slices.Sorted(maps.Keys(grantedPermissions()[routerRoleFile]))
	wanted = slices.Sorted(slices.Values(append(wanted, slices.Collect(maps.Keys(controllerPermissions()))...)))
	if diff := cmp.Diff(wanted, usedPermissions(t, rolloutsAccount)); diff != "" {
		t.Errorf("permissions of the router (-table +audit log):\n%s", diff)
	}
}

// useAsInterceptor runs an interceptor until it is the leader and has reported a validation error, then stops it and
// starts it again, so that it finds its Lease.
func useAsInterceptor(t *testing.T, namespace string) {
	t.Helper()
	if refused := shared.create(t, namespace, "invalid",
		`{scaleTargetRef: {service: missing, port: 80}}`); refused != "" {
		t.Fatal(refused)
	}
	shared.apply(t, namespace, `
apiVersion: http.keda.sh/v1alpha1
kind: HTTPScaledObject
metadata:
  name: page
  annotations:
    http.kedify.io/cold-start-waiting-page-enabled: "true"
    http.kedify.io/cold-start-waiting-page-config-map-ref: page
spec: {hosts: [page.usage.test], scaleTargetRef: {service: missing, port: 80}}
`)
	shared.apply(t, namespace, `
apiVersion: http.keda.sh/v1beta1
kind: InterceptorRoute
metadata: {name: route}
spec: {rules: [{hosts: [route.usage.test]}], target: {service: missing, port: 80}, scalingMetric: {concurrency: {targetValue: 1}}}
`)
	// The first report removes the annotation that another CRD made necessary.
	if err := patch(t.Context(), shared.admin, pathOf(namespace, "invalid"),
		fmt.Sprintf(`{"metadata": {"annotations": {%q: "{}"}}}`, httpv1alpha1.AnnotationStatus)); err != nil {
		t.Fatal(err)
	}
	first := shared.startInterceptor(t, interceptorPod)
	await.True(t, "the validation error is reported", func() bool {
		return meta.IsStatusConditionFalse(shared.object(t, namespace, "invalid").Status.Conditions,
			httpv1alpha1.ConditionAccepted)
	})
	await.True(t, "the Lease is renewed, the Event is there, and the page is watched", func() bool {
		used := usedPermissions(t, interceptorAccount)
		return slices.Contains(used, "create events.events.k8s.io") &&
			slices.Contains(used, "patch interceptorroutes.http.keda.sh/status") && slices.Contains(used, "watch configmaps") &&
			slices.ContainsFunc(shared.requests(t, interceptorAccount),
				func(e apiserver.AuditEvent) bool { return e.Verb == "update" })
	})
	held := interceptorLease(t)
	first.Stop(t)
	if released := interceptorLease(t); *held.Spec.HolderIdentity != interceptorPod ||
		*released.Spec.HolderIdentity != "" {
		t.Errorf("the Lease was held by %q, and by %q after the interceptor had ended", *held.Spec.HolderIdentity,
			*released.Spec.HolderIdentity)
	}
	second := shared.startInterceptor(t, interceptorPod)
	await.True(t, "the interceptor finds its Lease", func() bool {
		found := interceptorLease(t)
		return found.UID == held.UID && *found.Spec.HolderIdentity == interceptorPod &&
			*found.Spec.LeaseTransitions == *held.Spec.LeaseTransitions+1
	})
	holder, names := second, [2]string{"interceptor-1", interceptorPod}
	await.True(t, "the watch notices the release of the Lease before the next poll", func() (isByWatch bool) {
		holder, isByWatch = takeOver(t, holder, names[0])
		names[0], names[1] = names[1], names[0]
		return isByWatch // false if the machine stalled
	})
}

// useSomeNamespaces runs an interceptor of one namespace until it watches the Service of the shared proxies.
func useSomeNamespaces(t *testing.T, namespace string) {
	t.Helper()
	running := shared.startInterceptor(t, "interceptor-of-a-namespace", "--namespaces="+namespace)
	await.True(t, "the Service of the shared proxies is watched", func() bool {
		return slices.Contains(usedPermissions(t, interceptorAccount), "watch services/kedify-proxy in keda")
	})
	running.Stop(t)
}

// takeOver starts a standby replica, stops the holder of the Lease, and returns the replica when it holds the Lease.
// isByWatch reports whether its watch noticed the release: the pause until the next poll, which begins with the watch,
// was not half over.
func takeOver(t *testing.T, holder *program.Process, successor string) (next *program.Process, isByWatch bool) {
	t.Helper()
	before := len(shared.requests(t, interceptorAccount))
	watches := func() []apiserver.AuditEvent { // only a standby replica watches the Lease
		return slices.DeleteFunc(shared.requests(t, interceptorAccount)[before:], func(e apiserver.AuditEvent) bool {
			return e.Verb != "watch" || e.ObjectRef.Resource != "leases"
		})
	}
	next = shared.startInterceptor(t, successor)
	await.True(t, successor+" stands by", func() bool { return len(watches()) > 0 })
	holder.Stop(t)
	await.True(t, successor+" holds the Lease",
		func() bool { return *interceptorLease(t).Spec.HolderIdentity == successor })
	acquired := interceptorLease(t).Spec.AcquireTime.Time
	var watched time.Time
	for _, event := range watches() {
		if at := event.RequestReceivedTimestamp; at.After(watched) && at.Before(acquired) {
			watched = at
		}
	}
	pause := acquired.Sub(watched)
	t.Logf("%s acquired the Lease %v after its last watch began", successor, pause)
	//testbounds:allow both times are the product's, and a longer pause is no failure: the takeover is repeated
	return next, pause < httpv1alpha1.LeaseRenewInterval/2
}

// interceptorPod is the name of the interceptor's Pod.
const interceptorPod = "interceptor-0"

// startInterceptor runs the built interceptor as the Pod and as its ServiceAccount until the test ends, with more flags.
func (c *cluster) startInterceptor(t *testing.T, pod string, more ...string) *program.Process {
	t.Helper()
	const free = "127.0.0.1:0"
	return program.Run(t, filepath.Join(c.folder, "interceptor"), append(more,
		"--kubeconfig="+c.kubeconfig(t, apiserver.InterceptorToken),
		"--xds-address="+free, "--proxy-address="+free, "--admin-address="+free, "--metrics-address="+free,
		"--metric-sink-address="+free, "--dashboard-address="+free,
		"--pod-name="+pod, "--pod-namespace=keda", "--shutdown-delay=0s")...)
}

// interceptorLease reads the Lease of the interceptors.
func interceptorLease(t *testing.T) coordinationv1.Lease {
	t.Helper()
	var lease coordinationv1.Lease
	body, err := shared.admin.Get().AbsPath("/apis/coordination.k8s.io/v1/namespaces/keda/leases/" +
		httpv1alpha1.DefaultInterceptorLease).DoRaw(t.Context())
	if err := errors.Join(err, json.Unmarshal(body, &lease)); err != nil {
		t.Fatal(err)
	}
	return lease
}

// useAsScaler runs a scaler until it has opened all its watches.
func useAsScaler(t *testing.T) {
	t.Helper()
	const free = "127.0.0.1:0"
	program.Run(t, filepath.Join(shared.folder, "scaler"), "--kubeconfig="+shared.kubeconfig(t, apiserver.ScalerToken),
		"--grpc-address="+free, "--health-address="+free, "--metrics-address="+free, "--shutdown-delay=0s")
	await.True(t, "the scaler watches", func() bool {
		return len(usedPermissions(t, scalerAccount)) >= len(grantedPermissions()[scalerRoleFile])
	})
}

// useAsRouter runs a canary on an object with the owner annotation of another Rollout, up to a promotion that depends
// on Endpoints.
func useAsRouter(t *testing.T, namespace string) {
	t.Helper()
	if refused := shared.create(t, namespace, "shop",
		`{hosts: [usage.test], scaleTargetRef: {service: shop-stable, port: 80}}`); refused != "" {
		t.Fatal(refused)
	}
	asked, canary := shared.startPlugin(t, apiserver.RolloutsToken), rollout(namespace, "shop")
	if err := patch(t.Context(), shared.admin, pathOf(namespace, "shop"),
		fmt.Sprintf(`{"metadata": {"annotations": {%q: "[{service: shop-stable, weight: 1}]", %q: %q}}}`,
			httpv1alpha1.AnnotationWeightedBackends, httpv1alpha1.AnnotationWeightedBackendsOwner, namespace+"/gone uid")); err != nil {
		t.Fatal(err)
	}
	must(t, "SetWeight(100)", asked.SetWeight(canary, 100, nil))
	_, answer := asked.VerifyWeight(canary, 100, nil)
	must(t, "VerifyWeight(100)", answer)
	canary.Spec.Strategy.Canary.DynamicStableScale = true
	if err := apiserver.Apply(t.Context(), shared.admin, namespace,
		"{apiVersion: v1, kind: Endpoints, metadata: {name: shop-canary}, subsets: [{addresses: [{ip: 10.1.2.3}], "+
			"ports: [{port: 8080}]}]}"); err != nil {
		t.Fatal(err)
	}
	if answer := asked.UpdateHash(canary, "new", "new", nil); !strings.Contains(answer.ErrorString,
		`waits for Service "shop-stable"`) {
		t.Fatalf("UpdateHash without endpoints answered %q", answer.ErrorString)
	}
	must(t, "SetWeight(0)", asked.SetWeight(canary, 0, nil))
	const metric = `scalingMetric: {concurrency: {targetValue: 1}}`
	if rejected := shared.createRoute(t, namespace, "routed",
		`{rules: [{hosts: [routed.usage.test]}], target: {service: routed-stable, port: 80}, `+metric+`}`); rejected != "" {
		t.Fatal(rejected)
	}
	routed := rollout(namespace, "routed")
	routed.Spec.Strategy.Canary.TrafficRouting.Plugins[httpso.Type] = []byte(`{"interceptorRoute":"routed"}`)
	must(t, "SetWeight(20) of an InterceptorRoute", asked.SetWeight(routed, 20, nil))
	must(t, "SetWeight(0) of an InterceptorRoute", asked.SetWeight(routed, 0, nil))
	await.True(t, "the plugin watches", func() bool {
		used := usedPermissions(t, rolloutsAccount)
		return slices.Contains(used, "watch httpscaledobjects.http.keda.sh") &&
			slices.Contains(used, "watch interceptorroutes.http.keda.sh")
	})
}

// usedPermissions lists the permissions that the requests of an account needed, in the notation of the tables. A
// forbidden request fails the test.
func usedPermissions(t *testing.T, account string) []string {
	t.Helper()
	found := map[string]bool{}
	for _, event := range shared.requests(t, account) {
		ref := event.ObjectRef
		if event.ResponseStatus.Code == 403 {
			t.Errorf("%s was forbidden to %s %s %s/%s", account, event.Verb, ref.Resource, ref.Namespace, ref.Name)
		}
		resource, name, namespace := ref.Resource, "", ""
		if ref.Subresource != "" {
			resource += "/" + ref.Subresource
		}
		// Roles name one Lease, one Secret, one Service, ConfigMaps, and the namespace of the interceptors.
		if resource == "configmaps" &&
			(strings.HasPrefix(ref.Name, envoysettings.Name) || ref.Name == httpv1alpha1.InterceptorCA) {
			name = ref.Name
		}
		if account != rolloutsAccount && ref.Namespace == "keda" {
			namespace = "keda"
			if resource == "leases" && event.Verb != "create" || resource == "secrets" || resource == "services" {
				name = ref.Name
			}
		}
		found[permissionName(event.Verb, ref.APIGroup, resource, name, namespace)] = true
	}
	return slices.Sorted(maps.Keys(found))
}
