package certificate

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// names are the DNS names of the webhook.
func names() []string { return []string{"agent.keda.svc", "localhost"} }

// newRotator returns a replica's Rotator with a clock.
func newRotator(api client.Client, now *time.Time) *Rotator {
	return &Rotator{
		Client: api, Secret: types.NamespacedName{Namespace: "keda", Name: "webhook"}, Webhook: "agent", Names: names(),
		Now: func() time.Time { return *now }, Logger: slog.New(slog.DiscardHandler),
	}
}

// newAPI returns an API server with a MutatingWebhookConfiguration of two webhooks.
func newAPI(t *testing.T) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), admissionregistrationv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(&admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "agent"},
		Webhooks:   []admissionregistrationv1.MutatingWebhook{{Name: "a.test.io"}, {Name: "b.test.io"}},
	}).Build()
}

// trusted returns the CA pool of the API server.
func trusted(t *testing.T, api client.Client) []byte {
	t.Helper()
	var found admissionregistrationv1.MutatingWebhookConfiguration
	if err := api.Get(t.Context(), types.NamespacedName{Name: "agent"}, &found); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(found.Webhooks[0].ClientConfig.CABundle, found.Webhooks[1].ClientConfig.CABundle) {
		t.Error("the two webhooks have different bundles")
	}
	return found.Webhooks[0].ClientConfig.CABundle
}

// accepted fails unless the API server would accept the certificate that a replica serves, for each name.
func accepted(t *testing.T, api client.Client, replica *Rotator, at time.Time) {
	t.Helper()
	served, err := replica.Certificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(served.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(trusted(t, api)) {
		t.Fatal("no certificate is trusted")
	}
	for _, name := range names() {
		if _, err := leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: at}); err != nil {
			t.Errorf("%s at %v: %v", name, at, err)
		}
	}
}

func ensure(t *testing.T, replica *Rotator) *tls.Certificate {
	t.Helper()
	if err := replica.ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	served, err := replica.Certificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	return served
}

// TestTwoReplicasRenewCertificates has two replicas from the first certificate to the third. The clock starts at
// the machine's time, at which keys are verified.
func TestTwoReplicasRenewCertificates(t *testing.T) {
	t.Parallel()
	api, now := newAPI(t), time.Now()
	one, other := newRotator(api, &now), newRotator(api, &now)
	if _, err := one.Certificate(nil); !errors.Is(err, ErrNotReady) {
		t.Errorf("before the first look: %v", err)
	}
	first := ensure(t, one)
	if shared := ensure(t, other); !bytes.Equal(first.Certificate[0], shared.Certificate[0]) {
		t.Error("the replicas serve different certificates")
	}
	accepted(t, api, one, now)

	now = now.Add(validity - renewal - time.Minute)
	if same := ensure(t, one); !bytes.Equal(first.Certificate[0], same.Certificate[0]) {
		t.Error("it was renewed too early")
	}
	now = now.Add(2 * time.Minute)
	if second := ensure(t, one); bytes.Equal(first.Certificate[0], second.Certificate[0]) {
		t.Error("it was not renewed")
	}
	accepted(t, api, one, now)
	accepted(t, api, other, now) // which still serves the first
	ensure(t, other)

	now = now.Add(validity)
	ensure(t, one)
	accepted(t, api, one, now)
	if got := bytes.Count(trusted(t, api), []byte("BEGIN CERTIFICATE")); got != 1 {
		t.Errorf("%d authorities are trusted, one of which has ended", got)
	}
}

func TestRepairSecretAndWebhook(t *testing.T) {
	t.Parallel()
	breaks := map[string]func(*testing.T, client.Client){
		"the Secret is deleted": func(t *testing.T, api client.Client) {
			t.Helper()
			if err := api.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "keda", Name: "webhook"}}); err != nil {
				t.Fatal(err)
			}
		},
		"the Secret is emptied": func(t *testing.T, api client.Client) {
			t.Helper()
			if err := api.Update(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "keda", Name: "webhook"}}); err != nil {
				t.Fatal(err)
			}
		},
		"the bundle is emptied": func(t *testing.T, api client.Client) {
			t.Helper()
			found := new(admissionregistrationv1.MutatingWebhookConfiguration)
			err := api.Get(t.Context(), types.NamespacedName{Name: "agent"}, found)
			found.Webhooks[1].ClientConfig.CABundle = nil
			if err := errors.Join(err, api.Update(t.Context(), found)); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, damage := range breaks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api, now := newAPI(t), time.Now()
			replica, other := newRotator(api, &now), newRotator(api, &now)
			ensure(t, replica)
			ensure(t, other)
			damage(t, api)
			ensure(t, replica)
			accepted(t, api, replica, now)
			if name != "the bundle is emptied" {
				accepted(t, api, other, now) // which has not looked yet
			}
			ensure(t, other)
			accepted(t, api, other, now)
		})
	}
}

// TestAdditionalDNSNames has a replica of a new version that needs an additional name while the other one still
// serves.
func TestAdditionalDNSNames(t *testing.T) {
	t.Parallel()
	api, now := newAPI(t), time.Now()
	old, updated := newRotator(api, &now), newRotator(api, &now)
	updated.Names = append(names(), "agent.keda.svc.cluster.local")
	ensure(t, old)
	ensure(t, updated)
	accepted(t, api, old, now)
	accepted(t, api, updated, now)
	first := ensure(t, updated)
	if same := ensure(t, old); !bytes.Equal(first.Certificate[0], same.Certificate[0]) {
		t.Error("the old version serves another certificate than the one that has its names, too")
	}
	accepted(t, api, old, now)
}

func TestNoWebhookConfiguration(t *testing.T) {
	t.Parallel()
	api, now := newAPI(t), time.Now()
	if err := api.Delete(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "agent"}}); err != nil {
		t.Fatal(err)
	}
	ensure(t, newRotator(api, &now))
}

var errDown = errors.New("the API server is down")

// TestServeOnlyTrustedCertificates has an API server that rejects the CA bundle.
func TestServeOnlyTrustedCertificates(t *testing.T) {
	t.Parallel()
	now := time.Now()
	api := interceptor.NewClient(newAPI(t), interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return errDown
		},
	})
	replica := newRotator(api, &now)
	if err := replica.ensure(t.Context()); !errors.Is(err, errDown) {
		t.Errorf("ensure = %v", err)
	}
	if _, err := replica.Certificate(nil); !errors.Is(err, ErrNotReady) {
		t.Errorf("Certificate = %v", err)
	}
}
