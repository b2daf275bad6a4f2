package ingest_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
)

// recordHold records the CAs that the published cluster of calls of the interceptor trusts.
func (s *environment) recordHold(resources translate.Resources) {
	cluster, isPublished := resources[resourcev3.ClusterType][translate.HoldName].(*clusterv3.Cluster)
	if !isPublished {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holdCluster = "plaintext"
	if config := cluster.GetTransportSocket().GetTypedConfig(); config != nil {
		context := new(tlsv3.UpstreamTlsContext)
		if err := config.UnmarshalTo(context); err != nil {
			s.holdCluster = err.Error()
			return
		}
		s.holdCluster = context.GetCommonTlsContext().GetValidationContext().GetTrustedCa().GetInlineString()
	}
}

// ownSecret returns the Secret with the interceptor's certificate.
func ownSecret(certificate, ca string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "keda", Name: "tls"},
		Data: map[string][]byte{
			"tls.crt": []byte(certificate), "tls.key": []byte("key"), "ca.crt": []byte(ca), "next.key": []byte("secret"),
		},
	}
}

var errCertificate = errors.New("no certificate")

// withOwnCertificate returns an environment that queues requests. The returned function lists the certificates that
// were set since the last call.
func withOwnCertificate(t *testing.T, source *faultySource) (s *environment, taken func() []string) {
	t.Helper()
	s = newEnvironment(t)
	s.hold = translate.Hold{Checks: netip.MustParseAddrPort("10.0.0.9:5678"), Name: "interceptor.keda.svc"}
	s.certificate = source
	var certificates []string
	s.setCertificate = func(data map[string][]byte) (string, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		text := string(data["tls.crt"])
		if certificates = append(certificates, text); strings.HasPrefix(text, "bad") {
			return "", errCertificate
		}
		if len(data) != 3 {
			return "", errCertificate
		}
		return string(data["ca.crt"]), nil
	}
	return s, func() []string {
		s.mu.Lock()
		defer s.mu.Unlock()
		all := certificates
		certificates = nil
		return all
	}
}

// TestOwnCertificateLifecycle follows the Secret with the interceptor's certificate. A new CA changes the calls of
// proxies, and invalid versions change nothing.
func TestOwnCertificateLifecycle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, taken := withOwnCertificate(t, newFaultySource(t))
		defer s.run(t)()
		expect := func(when, cluster string, certificates ...string) {
			t.Helper()
			time.Sleep(time.Second)
			synctest.Wait()
			if diff := cmp.Diff(certificates, taken()); diff != "" {
				t.Errorf("%s: certificates (-want +got):\n%s", when, diff)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.holdCluster != cluster {
				t.Errorf("%s: calls trust %q, want %q", when, s.holdCluster, cluster)
			}
		}
		expect("without the Secret", "plaintext")
		s.certificate.Add(ownSecret("first", "ca 1"))
		expect("created", "ca 1", "first")
		before := s.publications()
		s.certificate.Modify(ownSecret("first", "ca 1"))
		expect("unchanged", "ca 1")
		s.certificate.Modify(ownSecret("second", "ca 1"))
		expect("a certificate of the same CA", "ca 1", "second")
		s.certificate.Modify(ownSecret("bad", "ca 3"))
		expect("an invalid certificate", "ca 1", "bad")
		if now := s.publications(); now != before {
			t.Errorf("%d publications without another CA", now-before)
		}
		s.certificate.Modify(ownSecret("third", "ca 2"))
		expect("another CA", "ca 2", "third")
		s.certificate.Delete(ownSecret("", ""))
		expect("deleted", "ca 2")
		s.certificate.Add(ownSecret("third", "ca 2"))
		expect("created again", "ca 2", "third")
		if object := s.lastPass().Objects; len(object) != 1 {
			t.Errorf("reported objects: %v", object)
		}
	})
}

// TestOwnCertificateBeforeTheFirstPublication: the first publication has the certificate, unless it may not be read.
func TestOwnCertificateBeforeTheFirstPublication(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		failure error
		want    string
	}{
		"readable": {nil, "ca 1"},
		"forbidden": {
			apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "tls", errors.New("no role")), "plaintext",
		},
		"unavailable": {apierrors.NewServiceUnavailable("starting"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				source := newFaultySource(t, ownSecret("first", "ca 1"))
				source.fail(test.failure)
				s, _ := withOwnCertificate(t, source)
				defer s.run(t)()
				time.Sleep(time.Second)
				synctest.Wait()
				s.mu.Lock()
				got := s.holdCluster
				s.mu.Unlock()
				if got != test.want {
					t.Errorf("calls trust %q, want %q; waiting for %v", got, test.want, s.loop.Waiting())
				}
				if source.fail(nil); test.want != "ca 1" {
					time.Sleep(10 * time.Minute)
					synctest.Wait()
					s.mu.Lock()
					defer s.mu.Unlock()
					if s.holdCluster != "ca 1" {
						t.Errorf("later: calls trust %q", s.holdCluster)
					}
				}
			})
		})
	}
}
