package ingest_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// secretSources are the lists and watches of named Secrets.
type secretSources struct {
	t         *testing.T
	mu        sync.Mutex
	byName    map[string]*faultySource
	requested []string // in order
}

// list implements ingest.Sources.Secret.
func (s *secretSources) list(key model.Key) cache.ListerWatcherWithContext {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requested = append(s.requested, key.String())
	return s.byName[key.String()]
}

// recordSecrets records the published certificates.
func (s *environment) recordSecrets(changed translate.Resources, removed map[string][]string, isAll bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if isAll || s.chains == nil {
		s.chains = map[string]string{}
	}
	for host, message := range changed[resourcev3.SecretType] {
		if secret, ok := message.(*tlsv3.Secret); ok {
			s.chains[host] = string(secret.GetTlsCertificate().GetCertificateChain().GetInlineBytes())
		}
	}
	for _, host := range removed[resourcev3.SecretType] {
		delete(s.chains, host)
	}
}

// certificates returns the published certificates by host.
func (s *environment) certificates() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.chains)
}

// reasons returns the reasons of condition TLSReady of an object.
func (s *environment) reasons(name string) []string {
	var reasons []string
	state := s.lastPass().Objects[model.Key{Namespace: "apps", Name: name}].Outcome.TLS
	if state == nil {
		return nil
	}
	for _, problem := range state.Problems {
		reasons = append(reasons, problem.Reason)
	}
	return reasons
}

// shopWithTLS returns shop with a Secret.
func shopWithTLS() *httpv1alpha1.HTTPScaledObject {
	return kit.WithAnnotation(shop(), httpv1alpha1.AnnotationTLSSecretName, "shop-tls")
}

// newTLSEnvironment returns an environment with the given Secrets. Its object names one of them.
func newTLSEnvironment(t *testing.T, objects ...*corev1.Secret) *environment {
	t.Helper()
	s := newEnvironment(t)
	s.scaledObjects = newFaultySource(t, shopWithTLS())
	source := newFaultySource(t)
	for _, object := range objects {
		source.Add(object)
	}
	s.secrets = &secretSources{t: t, byName: map[string]*faultySource{"apps/shop-tls": source}}
	return s
}

func chainOf(secret *corev1.Secret) string { return string(secret.Data[corev1.TLSCertKey]) }

func errForbidden() error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "shop-tls", errors.New("no"))
}

// TestFirstPublicationContainsCertificates: a reconnecting proxy must not lose a certificate only because it has not
// been read yet.
func TestFirstPublicationContainsCertificates(t *testing.T) {
	secret := kit.NewTLSSecret(t, "apps", "shop-tls", 1, "shop.test")
	synctest.Test(t, func(t *testing.T) {
		s := newTLSEnvironment(t, secret)
		defer s.run(t)()
		<-s.loop.Seeded()
		synctest.Wait()
		want := map[string]string{"shop.test": chainOf(secret), string(model.NoServerName): chainOf(secret)}
		if diff := cmp.Diff(want, s.certificates()); diff != "" || s.publications() != 1 {
			t.Errorf("certificates after %d publications (-want +got):\n%s", s.publications(), diff)
		}
		if reasons := s.reasons("shop"); len(reasons) > 0 {
			t.Errorf("problems: %v", reasons)
		}
	})
}

// TestSecretLifecycle rotates, invalidates, corrects and deletes a Secret.
func TestSecretLifecycle(t *testing.T) {
	first, second, third := kit.NewTLSSecret(t, "apps", "shop-tls", 1, "shop.test"), kit.NewTLSSecret(t, "apps",
		"shop-tls", 2, "shop.test"),
		kit.NewTLSSecret(t, "apps", "shop-tls", 3, "shop.test")
	invalid := second.DeepCopy()
	invalid.Data[corev1.TLSPrivateKeyKey] = first.Data[corev1.TLSPrivateKeyKey]
	synctest.Test(t, func(t *testing.T) {
		s := newTLSEnvironment(t)
		source := s.secrets.byName["apps/shop-tls"]
		defer s.run(t)()
		for _, step := range []struct {
			name   string
			do     func()
			chain  string
			reason []string
		}{
			{"missing", func() {}, "", []string{httpv1alpha1.ReasonSecretNotFound}},
			{"created", func() { source.Add(first) }, chainOf(first), nil},
			{"rotated", func() { source.Modify(second) }, chainOf(second), nil},
			{"invalid", func() { source.Modify(invalid) }, chainOf(second), []string{httpv1alpha1.ReasonInvalidSecret}},
			{"corrected", func() { source.Modify(third) }, chainOf(third), nil},
			{"the API server is unavailable", func() { source.fail(errors.New("away")) }, chainOf(third), nil},
			{"the API server recovers", func() { source.fail(nil) }, chainOf(third), nil},
			{"deleted", func() { source.Delete(third) }, "", []string{httpv1alpha1.ReasonSecretNotFound}},
		} {
			step.do()
			time.Sleep(20 * time.Second) // The clock is synctest's, here and below.
			if got := s.certificates()["shop.test"]; got != step.chain {
				t.Errorf("%s: the published certificate is not the expected one: %.40q", step.name, got)
			}
			if diff := cmp.Diff(step.reason, s.reasons("shop")); diff != "" {
				t.Errorf("%s: reasons (-want +got):\n%s", step.name, diff)
			}
		}
	})
}

// TestForbiddenSecretBlocksNothing: a forbidden Secret delays no publication, is retried rarely, and is served soon
// after permission is granted.
func TestForbiddenSecretBlocksNothing(t *testing.T) {
	secret := kit.NewTLSSecret(t, "apps", "shop-tls", 1, "shop.test")
	synctest.Test(t, func(t *testing.T) {
		s := newTLSEnvironment(t, secret)
		source := s.secrets.byName["apps/shop-tls"]
		source.fail(errForbidden())
		defer s.run(t)()
		time.Sleep(time.Hour) // The clock is synctest's, here and below.
		if !isClosed(s.loop.Seeded()) || len(s.loop.Waiting()) > 0 || len(s.certificates()) > 0 {
			t.Errorf("seeded: %t, waiting for %q, certificates of %v", isClosed(s.loop.Seeded()), s.loop.Waiting(),
				s.certificates())
		}
		outcome := s.lastPass().Objects[model.Key{Namespace: "apps", Name: "shop"}].Outcome
		if !outcome.IsAccepted() || len(outcome.TLS.Problems) != 1 {
			t.Fatalf("outcome %+v", outcome)
		}
		problem := outcome.TLS.Problems[0]
		if problem.Reason != httpv1alpha1.ReasonSecretUnreadable ||
			!strings.Contains(problem.Message, "kubectl create rolebinding kedify-http-interceptor-tls --namespace=apps") {
			t.Errorf("problem %+v", problem)
		}
		source.mu.Lock()
		lists := source.lists
		source.mu.Unlock()
		if lists > 30 {
			t.Errorf("a forbidden Secret was listed %d times in an hour", lists)
		}
		source.fail(nil)
		time.Sleep(10 * time.Minute)
		if s.certificates()["shop.test"] != chainOf(secret) || len(s.reasons("shop")) > 0 {
			t.Errorf("after it was allowed: certificates of %v, reasons %v", s.certificates(), s.reasons("shop"))
		}
	})
}

// TestOnlyNamedSecretsAreRead adds, changes and removes objects.
func TestOnlyNamedSecretsAreRead(t *testing.T) {
	secret := kit.NewTLSSecret(t, "apps", "shop-tls", 1, "shop.test")
	other := kit.NewTLSSecret(t, "apps", "other-tls", 2, "shop.test")
	synctest.Test(t, func(t *testing.T) {
		s := newTLSEnvironment(t, secret)
		s.secrets.byName["apps/other-tls"] = newFaultySource(t, other)
		s.scaledObjects = newFaultySource(t, shop())
		defer s.run(t)()
		time.Sleep(time.Second) // The clock is synctest's, here and below.
		requested := func() []string {
			s.secrets.mu.Lock()
			defer s.secrets.mu.Unlock()
			return slices.Clone(s.secrets.requested)
		}
		if got := requested(); len(got) > 0 {
			t.Errorf("no object names a Secret, but %v were read", got)
		}
		s.scaledObjects.Modify(shopWithTLS())
		time.Sleep(time.Second)
		s.scaledObjects.Modify(kit.WithAnnotation(shop(), httpv1alpha1.AnnotationTLSSecretName, "other-tls"))
		time.Sleep(time.Second)
		s.scaledObjects.Modify(kit.WithAnnotation(shop(), httpv1alpha1.AnnotationTLSSecretName, "../x"))
		time.Sleep(time.Second)
		if diff := cmp.Diff([]string{"apps/shop-tls", "apps/other-tls"}, requested()); diff != "" {
			t.Errorf("read (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{httpv1alpha1.ReasonInvalidSecretName}, s.reasons("shop")); diff != "" ||
			len(s.certificates()) > 0 {
			t.Errorf("certificates of %v; reasons (-want +got):\n%s", s.certificates(), diff)
		}
		// A Secret that no object names is not watched.
		s.secrets.byName["apps/shop-tls"].Modify(secret.DeepCopy())
		before := s.publications()
		time.Sleep(time.Minute)
		if s.publications() != before {
			t.Error("an unnamed Secret causes work")
		}
	})
}

// TestSecretsAreNotReadWithoutTLS, and the state of each object contains the reason.
func TestSecretsAreNotReadWithoutTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTLSEnvironment(t)
		s.secrets = nil
		defer s.run(t)()
		time.Sleep(time.Second) // The clock is synctest's.
		outcome := s.lastPass().Objects[model.Key{Namespace: "apps", Name: "shop"}].Outcome
		if !outcome.IsAccepted() || len(outcome.TLS.Problems) != 1 ||
			!strings.Contains(outcome.TLS.Problems[0].Message, "--tls=false") {
			t.Errorf("outcome %+v", outcome)
		}
	})
}

// TestCertificatesSurviveFailedPublication: after a failed publication everything is published again, including
// certificates.
func TestCertificatesSurviveFailedPublication(t *testing.T) {
	secret := kit.NewTLSSecret(t, "apps", "shop-tls", 1, "shop.test")
	synctest.Test(t, func(t *testing.T) {
		s := newTLSEnvironment(t, secret)
		defer s.run(t)()
		time.Sleep(time.Second) // The clock is synctest's, here and below.
		s.mu.Lock()
		s.refuse = errors.New("a bug")
		s.mu.Unlock()
		s.slices.Modify(slice("shop", "10.0.0.9"))
		time.Sleep(time.Second)
		s.mu.Lock()
		s.refuse = nil
		s.mu.Unlock()
		s.slices.Modify(slice("shop", "10.0.0.8"))
		time.Sleep(time.Second)
		if s.certificates()["shop.test"] != chainOf(secret) {
			t.Errorf("certificates of %v", s.certificates())
		}
	})
}
