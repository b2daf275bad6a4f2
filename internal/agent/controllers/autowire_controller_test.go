package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/controllers"
)

// errKilled stops an agent.
var errKilled = errors.New("killed")

// team is a namespace with two Ingresses, two HTTPRoutes and a VirtualService for one HTTPScaledObject, and an API server
// that stops the agent at a write.
type team struct {
	api    client.Client
	writes int // that are still done
	// grants are the existing ReferenceGrants. refused is the error of a write of one, or nil.
	grants  []apis.ReferenceGrant
	refused error
	agent   *controllers.AutowireReconciler
}

// newTeam returns the namespace with a ready proxy.
func newTeam(t *testing.T) *team {
	t.Helper()
	in := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "team", Name: name, Generation: 1}
	}
	slice := in("proxies")
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: "kedify-proxy"}
	shop := &httpv1alpha1.HTTPScaledObject{ObjectMeta: in("shop"), Spec: httpv1alpha1.HTTPScaledObjectSpec{
		Hosts: []string{"shop.test"}, ScaleTargetRef: httpv1alpha1.ScaleTargetRef{Service: "shop", Port: 80},
	}}
	shop.Annotations = map[string]string{httpv1alpha1.AnnotationTrafficAutowire: "ingress,httproute,virtualservice"}
	shop.Status.Conditions = []metav1.Condition{{Type: httpv1alpha1.ConditionProgrammed, Status: metav1.ConditionTrue, ObservedGeneration: 1}}
	all := []client.Object{
		shop,
		&corev1.Service{ObjectMeta: in("kedify-proxy"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 8080}}}},
		&discoveryv1.EndpointSlice{
			ObjectMeta: slice, Ports: []discoveryv1.EndpointPort{{Port: new(int32(10080))}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}, {Addresses: []string{"10.0.0.2"}}},
		},
	}
	for i := range 2 {
		ref := apis.HTTPBackendRef{Name: "shop", Port: 80}
		all = append(all, &apis.HTTPRoute{ObjectMeta: in(fmt.Sprint("route", i)), Spec: apis.HTTPRouteSpec{
			Rules: []apis.HTTPRouteRule{{BackendRefs: []apis.HTTPBackendRef{ref}}},
		}}, &networkingv1.Ingress{ObjectMeta: in(fmt.Sprint("web", i)), Spec: networkingv1.IngressSpec{
			DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
				Name: "shop", Port: networkingv1.ServiceBackendPort{Number: 80},
			}},
		}})
	}
	all = append(all, &apis.VirtualService{ObjectMeta: in("mesh"), Spec: apis.VirtualServiceSpec{
		HTTP: []apis.VirtualServiceHTTP{{Route: []apis.VirtualServiceRoute{{
			Destination: apis.VirtualServiceDestination{Host: "shop.team.svc.cluster.local", Port: &apis.PortSelector{Number: 80}},
		}}}},
	}})
	made := &team{writes: 1000}
	made.api = fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(all...).WithStatusSubresource(shop).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, api client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if made.writes--; made.writes < 0 {
				return errKilled
			}
			if grant, ok := object.(*apis.ReferenceGrant); ok {
				if made.refused == nil {
					grant.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
					made.grants = []apis.ReferenceGrant{*grant}
				}
				return made.refused
			}
			return api.Patch(ctx, object, patch, options...)
		},
		SubResourcePatch: func(
			ctx context.Context, api client.Client, what string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption,
		) error {
			if made.writes--; made.writes < 0 {
				return errKilled
			}
			return api.SubResource(what).Patch(ctx, object, patch, options...)
		},
	}).Build()
	made.agent = &controllers.AutowireReconciler{
		Client: made.api, APIReader: made.api, Events: record.NewFakeRecorder(1000), Now: time.Now, CoolDown: time.Nanosecond,
		IsInstalled:     func(schema.GroupVersionKind) bool { return true },
		SharedNamespace: "team",
		ListGrants: func(context.Context) ([]apis.ReferenceGrant, bool, error) {
			return made.grants, true, nil
		},
	}
	return made
}

// share moves the HTTPScaledObject to the shared fleet of another namespace.
func (m *team) share(t *testing.T) {
	t.Helper()
	in := metav1.ObjectMeta{Namespace: "keda", Name: "kedify-proxy", Labels: map[string]string{discoveryv1.LabelServiceName: "kedify-proxy"}}
	shop := m.shop(t)
	shop.Annotations[httpv1alpha1.AnnotationFleet] = httpv1alpha1.FleetShared
	shop.Annotations[httpv1alpha1.AnnotationTrafficAutowire] = "httproute"
	err := errors.Join(
		m.api.Create(t.Context(), &corev1.Service{ObjectMeta: in, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 8080}}}}),
		m.api.Create(t.Context(), &discoveryv1.EndpointSlice{ObjectMeta: in, Endpoints: []discoveryv1.Endpoint{{}}}),
		m.api.Update(t.Context(), shop))
	if err != nil {
		t.Fatal(err)
	}
	m.agent.SharedNamespace = "keda"
}

// again has the agent look once more, at what a real API server would have: the fake one loses a condition when another field manager applies one.
func (m *team) again(t *testing.T) error {
	t.Helper()
	shop := m.shop(t)
	meta.SetStatusCondition(&shop.Status.Conditions, metav1.Condition{
		Type: httpv1alpha1.ConditionProgrammed, Status: metav1.ConditionTrue, Reason: httpv1alpha1.ReasonProgrammed, ObservedGeneration: shop.Generation,
	})
	if err := m.api.Status().Update(t.Context(), shop); err != nil {
		t.Fatal(err)
	}
	return m.run(t)
}

// shop returns the HTTPScaledObject.
func (m *team) shop(t *testing.T) *httpv1alpha1.HTTPScaledObject {
	t.Helper()
	shop := new(httpv1alpha1.HTTPScaledObject)
	if err := m.api.Get(t.Context(), types.NamespacedName{Namespace: "team", Name: "shop"}, shop); err != nil {
		t.Fatal(err)
	}
	return shop
}

// TestRestoreWhenProxiesAreGone restores the backends when the connection to the last proxy is lost, before the
// EndpointSlices show it.
func TestRestoreWhenProxiesAreGone(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	m.agent.SharedNamespace = ""
	var kept, gone []netip.AddrPort
	m.agent.ProbeProxies = func(namespace string, proxies []netip.AddrPort) []netip.AddrPort {
		if namespace != "team" {
			t.Errorf("namespace %s is looked at", namespace)
		}
		kept = proxies
		return gone
	}
	names := func(what, want string, proxies int) {
		t.Helper()
		if err := m.again(t); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{want, want, want, want, want}, m.services(t)); diff != "" {
			t.Errorf("%s: Services (-want +got):\n%s", what, diff)
		}
		if len(kept) != proxies {
			t.Errorf("%s: connections to %v, want %d", what, kept, proxies)
		}
	}
	names("both are there", "kedify-proxy", 2)
	gone = kept[:1]
	names("one has ended", "kedify-proxy", 2)
	gone = kept
	names("both have ended", "shop", 2)
	gone = nil
	names("they are back", "kedify-proxy", 2)
	m.agent.Disabled = true
	names("nothing may be wired", "shop", 0)
}

// TestHostsOfObjects has backends for every host, and HTTPScaledObjects with and without hosts.
func TestHostsOfObjects(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	other := &httpv1alpha1.HTTPScaledObject{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "cart"},
		Spec:       httpv1alpha1.HTTPScaledObjectSpec{ScaleTargetRef: httpv1alpha1.ScaleTargetRef{Service: "cart", Port: 80}},
	}
	step := func(what, reason string) {
		t.Helper()
		for range 2 { // the second time after the cool-down
			if err := m.again(t); err != nil {
				t.Fatal(err)
			}
		}
		want := "shop"
		if reason == httpv1alpha1.ReasonWired {
			want = "kedify-proxy"
		}
		if diff := cmp.Diff([]string{want, want, want, want, want}, m.services(t)); diff != "" {
			t.Errorf("%s: Services (-want +got):\n%s", what, diff)
		}
		condition := meta.FindStatusCondition(m.shop(t).Status.Conditions, httpv1alpha1.ConditionAutowired)
		if condition == nil || condition.Reason != reason {
			t.Errorf("%s: condition %+v, want %s", what, condition, reason)
		}
	}
	update := func(hosts ...string) {
		t.Helper()
		shop := m.shop(t)
		shop.Spec.Hosts = hosts
		if err := m.api.Update(t.Context(), shop); err != nil {
			t.Fatal(err)
		}
	}
	m.agent.SharedNamespace = "keda"
	step("a host", httpv1alpha1.ReasonWired)
	if err := m.api.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	step("an object without hosts that opts out", httpv1alpha1.ReasonRequestMismatch)
	update()
	step("no host", httpv1alpha1.ReasonWired)
	m.agent.SharedNamespace = "team"
	step("no host, in the namespace of the shared fleet", httpv1alpha1.ReasonNoMatchingBackend)
	update("*")
	step("every host", httpv1alpha1.ReasonWired)
}

// TestGrantRejected has an API server that forbids the ReferenceGrant: nothing is wired, the condition has the
// error, and the agent retries.
func TestGrantRejected(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	m.share(t)
	m.refused = apierrors.NewForbidden(schema.GroupResource{Resource: "referencegrants"}, "kedify-proxy-team", errKilled)
	if err := m.again(t); !errors.Is(err, m.refused) {
		t.Errorf("the agent says %v", err)
	}
	condition := meta.FindStatusCondition(m.shop(t).Status.Conditions, httpv1alpha1.ConditionAutowired)
	for _, what := range []string{"ReferenceGrant keda/kedify-proxy-team", "is forbidden: killed"} {
		if condition == nil || condition.Reason != httpv1alpha1.ReasonWriteRejected || !strings.Contains(condition.Message, what) {
			t.Errorf("condition %+v, want %q", condition, what)
		}
	}
	if diff := cmp.Diff([]string{"shop", "shop", "shop", "shop", "shop"}, m.services(t)); diff != "" {
		t.Errorf("Services (-want +got):\n%s", diff)
	}
	m.refused = nil
	for range 2 { // the ReferenceGrant, and what relies on it
		if err := m.again(t); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"shop", "shop", "kedify-proxy", "kedify-proxy", "shop"}, m.services(t)); diff != "" {
		t.Errorf("Services (-want +got):\n%s", diff)
	}
}

// TestKilledAroundGrantWrites stops the agent before each of its writes, with the shared fleet.
func TestKilledAroundGrantWrites(t *testing.T) {
	t.Parallel()
	for offset := range 5 { // the ReferenceGrant, a condition, two HTTPRoutes, and the condition again
		t.Run(strconv.Itoa(offset), func(t *testing.T) {
			t.Parallel()
			m := newTeam(t)
			m.share(t)
			m.writes = offset
			var ended error
			for range 2 {
				ended = errors.Join(ended, m.again(t))
				m.services(t)
			}
			if !errors.Is(ended, errKilled) {
				t.Errorf("the agent ends with %v", ended)
			}
			if isMade := len(m.grants) > 0; isMade != (offset > 0) {
				t.Errorf("there is a ReferenceGrant: %v", isMade)
			}
			m.writes = 1000
			for range 3 {
				if err := m.again(t); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff([]string{"shop", "shop", "kedify-proxy", "kedify-proxy", "shop"}, m.services(t)); diff != "" {
				t.Errorf("Services (-want +got):\n%s", diff)
			}
		})
	}
}

// run reconciles the namespace.
func (m *team) run(t *testing.T) error {
	t.Helper()
	_, err := m.agent.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "team"}})
	return err
}

// services returns the Services that the objects reference. It fails if one references the proxies without a
// restore record.
func (m *team) services(t *testing.T) []string {
	t.Helper()
	var ingresses networkingv1.IngressList
	var routes apis.HTTPRouteList
	var services apis.VirtualServiceList
	if err := errors.Join(m.api.List(t.Context(), &ingresses), m.api.List(t.Context(), &routes),
		m.api.List(t.Context(), &services)); err != nil {
		t.Fatal(err)
	}
	var found []string
	add := func(object client.Object, name string) {
		if _, has := object.GetAnnotations()[httpv1alpha1.AnnotationAutowireUndo]; has != (name == "kedify-proxy") {
			t.Errorf("%s names %s, annotations %v", object.GetName(), name, object.GetAnnotations())
		}
		found = append(found, name)
	}
	for _, ingress := range ingresses.Items {
		add(&ingress, ingress.Spec.DefaultBackend.Service.Name)
	}
	for _, route := range routes.Items {
		add(&route, route.Spec.Rules[0].BackendRefs[0].Name)
	}
	for _, service := range services.Items {
		host := service.Spec.HTTP[0].Route[0].Destination.Host
		name, isHere := strings.CutSuffix(host, ".team.svc.cluster.local")
		if !isHere {
			t.Errorf("VirtualService with host %s", host)
		}
		add(&service, name)
	}
	return found
}

// TestKilledAtEachWrite wires and restores, and stops the agent before each of its writes. The next agent
// finishes.
func TestKilledAtEachWrite(t *testing.T) {
	t.Parallel()
	const all = 6 // two Ingresses, two HTTPRoutes, a VirtualService and a condition
	for _, isOff := range []bool{false, true} {
		for offset := range all + 1 {
			t.Run(fmt.Sprintf("off %v, %d writes", isOff, offset), func(t *testing.T) {
				t.Parallel()
				m, want := newTeam(t), "kedify-proxy"
				if isOff {
					if err := m.run(t); err != nil {
						t.Fatal(err)
					}
					want = "shop"
				}
				m.agent.Disabled, m.writes = isOff, offset
				if err := m.run(t); (offset < all) != errors.Is(err, errKilled) {
					t.Errorf("the agent ends with %v", err)
				}
				done := 0
				for _, name := range m.services(t) {
					if name == want {
						done++
					}
				}
				if done != min(offset, all-1) {
					t.Errorf("%d objects name %s after %d writes", done, want, offset)
				}
				m.writes = 1000
				if err := m.run(t); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([]string{want, want, want, want, want}, m.services(t)); diff != "" {
					t.Errorf("Services (-want +got):\n%s", diff)
				}
				if err := m.run(t); err != nil || m.writes != 1000-(all-offset) {
					t.Errorf("%v; %d writes by the next one, want %d", err, 1000-m.writes, all-offset)
				}
			})
		}
	}
}
