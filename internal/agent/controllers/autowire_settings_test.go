package controllers_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// byCookie is what the Ingresses of a team with cookies request.
const byCookie = `{"sessionAffinity":{"cookie":{"name":"kedify-session","path":"/","secure":false,"httpOnly":true,"sameSite":"Lax"}}}`

// newStickyTeam returns a team whose Ingresses have session affinity by a cookie.
func newStickyTeam(t *testing.T) *team {
	t.Helper()
	m := newTeam(t)
	for i := range 2 {
		web, key := new(networkingv1.Ingress), types.NamespacedName{Namespace: "team", Name: fmt.Sprint("web", i)}
		err := m.api.Get(t.Context(), key, web)
		web.Annotations = map[string]string{"nginx.ingress.kubernetes.io/affinity": "cookie"}
		if err := errors.Join(err, m.api.Update(t.Context(), web)); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// settings returns the settings of the HTTPScaledObject.
func (m *team) settings(t *testing.T) string {
	t.Helper()
	return m.shop(t).Annotations[httpv1alpha1.AnnotationAutowireSettings]
}

// acknowledge reports, like the interceptor, that the only proxy has acknowledged settings.
func (m *team) acknowledge(t *testing.T, settings string) {
	t.Helper()
	shop := m.shop(t)
	shop.Status.DataPlane = &httpv1alpha1.DataPlaneStatus{
		Proxies: httpv1alpha1.ProxyCounts{Ready: 1, Acked: 1}, AutowireSettings: settings,
	}
	if err := m.api.Status().Update(t.Context(), shop); err != nil {
		t.Fatal(err)
	}
}

// TestSettingsAreWritten takes over the cookie of the Ingresses before anything is wired, and removes it long after
// everything is restored.
func TestSettingsAreWritten(t *testing.T) {
	t.Parallel()
	m := newStickyTeam(t)
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	m.agent.Now = func() time.Time { return now }
	step := func(what, service, settings string) {
		t.Helper()
		if err := m.again(t); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if diff := cmp.Diff([]string{service, service, service, service, service}, m.services(t)); diff != "" {
			t.Errorf("%s: Services (-want +got):\n%s", what, diff)
		}
		if got := m.settings(t); got != settings {
			t.Errorf("%s: settings %q, want %q", what, got, settings)
		}
	}
	step("a new annotation", "shop", byCookie)
	step("no report", "shop", byCookie)
	m.acknowledge(t, "")
	step("an interceptor that does not report it", "shop", byCookie)
	m.acknowledge(t, byCookie)
	step("acknowledged", "kedify-proxy", byCookie)
	shop := m.shop(t)
	delete(shop.Annotations, httpv1alpha1.AnnotationAutowireSettings)
	if err := m.api.Update(t.Context(), shop); err != nil {
		t.Fatal(err)
	}
	m.acknowledge(t, "")
	step("removed by a user", "kedify-proxy", byCookie)
	m.agent.Disabled = true
	step("restored", "shop", byCookie)
	unused := strings.TrimSuffix(byCookie, "}") + `,"unusedSince":"2026-05-01T12:00:00Z"}`
	step("unused", "shop", unused)
	now = now.Add(29 * time.Second)
	step("for a while", "shop", unused)
	now = now.Add(time.Second)
	step("for longer", "shop", "")
	step("nothing is left", "shop", "")
}

// TestKilledAroundSettings stops the agent before each of its writes. No object is wired without the settings.
func TestKilledAroundSettings(t *testing.T) {
	t.Parallel()
	for offset := range 8 { // the settings and a condition, two Ingresses, two HTTPRoutes, a VirtualService, and the condition again
		t.Run(strconv.Itoa(offset), func(t *testing.T) {
			t.Parallel()
			m := newStickyTeam(t)
			m.writes = offset
			var ended error
			for range 2 {
				ended = errors.Join(ended, m.again(t))
				m.acknowledge(t, m.settings(t))
				for _, service := range m.services(t) {
					if service == "kedify-proxy" && m.settings(t) != byCookie {
						t.Errorf("wired with the settings %q", m.settings(t))
					}
				}
			}
			if !errors.Is(ended, errKilled) {
				t.Errorf("the agent ends with %v", ended)
			}
			m.writes = 1000
			for range 3 {
				if err := m.again(t); err != nil {
					t.Fatal(err)
				}
				m.acknowledge(t, m.settings(t))
			}
			if diff := cmp.Diff([]string{"kedify-proxy", "kedify-proxy", "kedify-proxy", "kedify-proxy", "kedify-proxy"}, m.services(t)); diff != "" {
				t.Errorf("Services (-want +got):\n%s", diff)
			}
		})
	}
}
