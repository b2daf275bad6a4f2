package certificate

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// interceptorSecret is the Secret of the tests.
var interceptorSecret = types.NamespacedName{Namespace: "keda", Name: "tls"}

// newIssuer returns a replica's Issuer with a clock.
func newIssuer(api client.Client, now *time.Time) *Issuer {
	return &Issuer{
		Client: api, Secret: interceptorSecret, Services: []string{"sink", "admin"},
		Now: func() time.Time { return *now }, Logger: slog.New(slog.DiscardHandler), Changed: make(chan event.GenericEvent, 1),
	}
}

// issue runs one check, and returns the Secret's data.
func issue(t *testing.T, i *Issuer) map[string][]byte {
	t.Helper()
	if err := i.ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	var secret corev1.Secret
	if err := i.Client.Get(t.Context(), i.Secret, &secret); err != nil {
		t.Fatal(err)
	}
	return secret.Data
}

// verify fails unless a client that trusts ca accepts the certificate in data for all names, as a server's and as a
// client's.
func verify(t *testing.T, what string, ca []byte, data map[string][]byte, at time.Time) {
	t.Helper()
	pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	for _, name := range []string{"sink.keda.svc", "admin.keda.svc"} {
		for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
			if _, err := pair.Leaf.Verify(x509.VerifyOptions{
				DNSName: name, Roots: roots, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{usage},
			}); err != nil {
				t.Errorf("%s: %s, usage %d: %v", what, name, usage, err)
			}
		}
	}
}

// TestIssuerTrustsBeforeItServes has two replicas of the agent over three certificates. A client that has had a CA
// bundle for less than the overlap accepts each certificate.
func TestIssuerTrustsBeforeItServes(t *testing.T) {
	t.Parallel()
	api, now := newAPI(t), time.Now()
	one, other := newIssuer(api, &now), newIssuer(api, &now)
	if one.CA() != nil {
		t.Error("a CA before the first check")
	}
	first := issue(t, one)
	verify(t, "the first certificate", one.CA(), first, now)
	<-one.Changed
	if same := issue(t, other); !maps.EqualFunc(first, same, bytes.Equal) || !bytes.Equal(one.CA(), other.CA()) {
		t.Error("the replicas have different certificates")
	}
	for range 3 {
		before := issue(t, one)
		now = bundleOf(before).begin().Add(validity - renewal - time.Minute)
		if same := issue(t, one); !maps.EqualFunc(before, same, bytes.Equal) {
			t.Error("renewed too early")
		}
		oldCA := one.CA()
		now = now.Add(2 * time.Minute)
		staged := issue(t, one)
		if !bytes.Equal(staged[corev1.TLSCertKey], before[corev1.TLSCertKey]) {
			t.Error("a certificate is served before clients trust it")
		}
		verify(t, "while clients learn the next CA, an old client", oldCA, staged, now)
		verify(t, "while clients learn the next CA, a new client", one.CA(), staged, now)
		stagedCA := one.CA()
		now = now.Add(overlap - time.Minute)
		if same := issue(t, other); !maps.EqualFunc(staged, same, bytes.Equal) {
			t.Error("served too early")
		}
		now = now.Add(2 * time.Minute)
		served := issue(t, other)
		if bytes.Equal(served[corev1.TLSCertKey], before[corev1.TLSCertKey]) {
			t.Error("the certificate was not renewed")
		}
		verify(t, "the next certificate, a client from before", stagedCA, served, now)
		verify(t, "the next certificate, a new client", other.CA(), served, now)
		verify(t, "the previous certificate, of a replica that is late", other.CA(), before, now)
		if _, hasNext := served[nextKeyKey]; hasNext {
			t.Error("the key is stored twice")
		}
		if count := bytes.Count(other.CA(), []byte("BEGIN CERTIFICATE")); count != 2 {
			t.Errorf("%d CAs are trusted, want the current and the previous one", count)
		}
	}
}

// TestIssuerRepairsItsSecret has damages of the Secret, after which there must be a valid certificate at once.
func TestIssuerRepairsItsSecret(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(*corev1.Secret){
		"without a key":         func(s *corev1.Secret) { delete(s.Data, corev1.TLSPrivateKeyKey) },
		"without a CA":          func(s *corev1.Secret) { delete(s.Data, caKey) },
		"empty":                 func(s *corev1.Secret) { s.Data = nil },
		"with the CA of others": func(s *corev1.Secret) { s.Data[caKey] = []byte("none") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api, now := newAPI(t), time.Now()
			i := newIssuer(api, &now)
			issue(t, i)
			var secret corev1.Secret
			err := api.Get(t.Context(), interceptorSecret, &secret)
			damage(&secret)
			if err := errors.Join(err, api.Update(t.Context(), &secret)); err != nil {
				t.Fatal(err)
			}
			repaired := issue(t, i)
			verify(t, "repaired", i.CA(), repaired, now)
			if same := issue(t, i); !maps.EqualFunc(repaired, same, bytes.Equal) {
				t.Error("repaired again")
			}
		})
	}
}

// TestIssuerServesAdditionalNames has a new version of the agent that needs an additional name.
func TestIssuerServesAdditionalNames(t *testing.T) {
	t.Parallel()
	api, now := newAPI(t), time.Now()
	old, updated := newIssuer(api, &now), newIssuer(api, &now)
	updated.Services = append(updated.Services, "scaler")
	before := issue(t, old)
	after := issue(t, updated)
	verify(t, "of a replica that serves the old certificate", updated.CA(), before, now)
	if same := issue(t, old); !maps.EqualFunc(after, same, bytes.Equal) {
		t.Error("the old version replaces a certificate that has its names")
	}
}

// TestIssuerLeavesTheSecretsOfOthersAlone has a Secret as cert-manager creates it, before or after the agent starts.
func TestIssuerLeavesTheSecretsOfOthersAlone(t *testing.T) {
	t.Parallel()
	api, now := newAPI(t), time.Now()
	i := newIssuer(api, &now)
	i.IsExternal = true
	if err := i.ensure(t.Context()); !apierrors.IsNotFound(err) || i.CA() != nil {
		t.Errorf("without a Secret: %v", err)
	}
	foreign := func(ca string) map[string][]byte {
		made, err := newBundle(ca, []string{"other.test"}, now, x509.ExtKeyUsageServerAuth)
		if err != nil {
			t.Fatal(err)
		}
		return made.content()
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "keda", Name: "tls"}, Data: foreign("first"), Type: corev1.SecretTypeTLS,
	}
	if err := api.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	for _, isExternal := range []bool{true, false} { // Without the label the Secret is someone else's either way.
		i.IsExternal = isExternal
		if data := issue(t, i); !maps.EqualFunc(data, secret.Data, bytes.Equal) || !bytes.Equal(i.CA(), secret.Data[caKey]) {
			t.Error("the agent changed the Secret of someone else")
		}
	}
	old := secret.Data[caKey]
	if secret.Data = foreign("second"); api.Update(t.Context(), secret) != nil {
		t.Fatal("the Secret was not updated")
	}
	issue(t, i)
	if !bytes.Contains(i.CA(), old) || !bytes.Contains(i.CA(), secret.Data[caKey]) {
		t.Error("the previous CA is not trusted any more, although replicas may still serve it")
	}
	now = now.Add(validity + time.Hour)
	if err := i.ensure(t.Context()); !errors.Is(err, errNoCA) {
		t.Errorf("with an expired CA: %v", err)
	}
	secret.Data, secret.Labels = nil, map[string]string{httpv1alpha1.LabelManagedBy: "cert-manager"}
	if err := api.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if err := i.ensure(t.Context()); !errors.Is(err, errNoCA) {
		t.Errorf("with an empty Secret: %v", err)
	}
}

// TestIssuerPublishesItsCAs has the ConfigMap for the scaler: created, repaired, kept by another replica that starts, and
// not changed if it is someone else's.
func TestIssuerPublishesItsCAs(t *testing.T) {
	t.Parallel()
	api, now := newAPI(t), time.Now()
	i := newIssuer(api, &now)
	published := func() *corev1.ConfigMap {
		t.Helper()
		issue(t, i)
		found := new(corev1.ConfigMap)
		if err := api.Get(t.Context(), types.NamespacedName{Namespace: "keda", Name: httpv1alpha1.InterceptorCA}, found); err != nil {
			t.Fatal(err)
		}
		return found
	}
	first := published()
	if first.Data["ca.crt"] != string(i.CA()) || first.Labels[httpv1alpha1.LabelManagedBy] != httpv1alpha1.ManagedByAgent {
		t.Errorf("published %+v", first)
	}
	if err := api.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if published().Data["ca.crt"] != string(i.CA()) {
		t.Error("the ConfigMap was not created again")
	}
	secret := &corev1.Secret{}
	err := api.Get(t.Context(), interceptorSecret, secret)
	made, failed := newBundle("other", []string{"other.test"}, now)
	secret.Data, secret.Labels = made.content(), nil
	if err := errors.Join(err, failed, api.Update(t.Context(), secret)); err != nil {
		t.Fatal(err)
	}
	i = newIssuer(api, &now) // It has no memory of the previous CA.
	if text := published().Data["ca.crt"]; text != string(made.ca)+first.Data["ca.crt"] {
		t.Errorf("a replica that starts publishes\n%s", text)
	}
	foreign := published()
	foreign.Labels, foreign.Data = nil, map[string]string{"ca.crt": "mine"}
	if err := api.Update(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	if text := published().Data["ca.crt"]; text != "mine" || !bytes.Contains(i.CA(), made.ca) {
		t.Errorf("the ConfigMap of someone else: %s", text)
	}
}
