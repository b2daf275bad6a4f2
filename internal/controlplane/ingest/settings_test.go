package ingest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/envoysettings"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// settingsOf returns a ConfigMap with settings of routes.
func settingsOf(namespace, name, route string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Data:       map[string]string{envoysettings.KeyRoute: route},
	}
}

// retries returns the published retries of shop, and the error in its settings.
func (s *environment) retries() (model.Given[uint32], string) {
	object := s.lastPass().Objects[model.Key{Namespace: "apps", Name: "shop"}]
	if len(object.Published.Routes) == 0 {
		return model.Given[uint32]{}, object.Outcome.EnvoySettings
	}
	return object.Published.Routes[0].EnvoySettings.OfRoute().Retries, object.Outcome.EnvoySettings
}

// TestEnvoySettingsLifecycle follows the ConfigMaps from their creation to their deletion, including invalid
// versions.
func TestEnvoySettingsLifecycle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newEnvironment(t)
		s.settings, s.global = newFaultySource(t), newFaultySource(t,
			settingsOf("keda", envoysettings.GlobalName, "retry_policy: {num_retries: 1}"))
		defer s.run(t)()
		expect := func(when string, retries uint32, isGiven bool, wantMessage string) {
			t.Helper()
			time.Sleep(time.Second)
			synctest.Wait()
			if got, message := s.retries(); got != (model.Given[uint32]{Value: retries, IsGiven: isGiven}) ||
				message != wantMessage {
				t.Errorf("%s: %+v, %q; want %d, %q", when, got, message, retries, wantMessage)
			}
		}
		namespaced := func(route string) *corev1.ConfigMap { return settingsOf("apps", envoysettings.Name, route) }
		expect("global", 1, true, "")
		s.settings.Add(settingsOf("elsewhere", envoysettings.Name, "retry_policy: {num_retries: 9}"))
		s.settings.Add(settingsOf("apps", "another", "retry_policy: {num_retries: 9}"))
		expect("another namespace and another name", 1, true, "")
		s.settings.Add(namespaced("retry_policy: {num_retries: 2}"))
		expect("namespaced", 2, true, "")
		s.settings.Modify(namespaced("retry_policy: {num_retries: 20}"))
		expect("an invalid value", 2, true,
			`ConfigMap "kedify-proxy-template-values": route.retry_policy.num_retries: invalid value "20": `+
				`use a whole number from 0 to 10 (until corrected, these settings keep their previous values, if any; `+
				`all others are active)`)
		s.settings.Modify(namespaced("timeout: 1s"))
		expect("an unset value", 1, true, "")
		s.global.Modify(settingsOf("keda", envoysettings.GlobalName, "{retries: 1, retry_policy: {num_retries: 3}}"))
		expect("an invalid global setting next to a valid one", 3, true,
			`ConfigMap "kedify-proxy-template-values-global": route.retries: unsupported setting: remove it `+
				`(until corrected, these settings keep their previous values, if any; all others are active)`)
		s.global.Delete(settingsOf("keda", envoysettings.GlobalName, ""))
		expect("global deleted", 0, false, "")
		s.settings.Modify(namespaced("retry_policy: {num_retries: 0}"))
		expect("no retries", 0, true, "")
		s.settings.Delete(namespaced(""))
		expect("all deleted", 0, false, "")
	})
}

// TestSettingsBeforeTheFirstPublication: after a restart the first publication contains the settings, unless they are
// forbidden.
func TestSettingsBeforeTheFirstPublication(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		failure  error
		isSeeded bool
	}{
		"away":      {errors.New("not now"), false},
		"forbidden": {apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", errors.New("no")), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newEnvironment(t)
				s.settings, s.global = newFaultySource(t,
					settingsOf("apps", envoysettings.Name, "retry_policy: {num_retries: 4}")), newFaultySource(t)
				s.settings.fail(test.failure)
				defer s.run(t)()
				time.Sleep(time.Second)
				synctest.Wait()
				if got := s.publications() > 0; got != test.isSeeded || (len(s.loop.Waiting()) == 0) != test.isSeeded {
					t.Errorf("published: %t, waits for %q", got, s.loop.Waiting())
				}
				s.settings.fail(nil)
				time.Sleep(20 * time.Second)
				synctest.Wait()
				if got, _ := s.retries(); got.Value != 4 {
					t.Errorf("retries %+v once they are listed", got)
				}
			})
		})
	}
}
