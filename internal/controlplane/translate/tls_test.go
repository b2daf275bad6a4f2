package translate_test

import (
	"testing"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// TestCertificatesBecomeSecrets changes the certificates of two hosts.
func TestCertificatesBecomeSecrets(t *testing.T) {
	t.Parallel()
	made := func(chain string) *model.Certificate {
		return model.NewCertificate(model.Key{Namespace: "apps", Name: "tls"}, []byte(chain), []byte("key of "+chain),
			time.Time{})
	}
	for _, isOn := range []bool{true, false} {
		options := translate.DefaultOptions()
		options.TLS = isOn
		translator, err := translate.NewTranslator(options)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			name         string
			certificates map[model.Host]*model.Certificate
			changed      map[string]string // the chain and the key, by host
			removed      []string
		}{
			{"none", nil, nil, nil},
			{
				"two",
				map[model.Host]*model.Certificate{"a.test": made("a"), "*.test": made("w")},
				map[string]string{"a.test": "a, key of a", "*.test": "w, key of w"},
				nil,
			},
			{
				"one changes",
				map[model.Host]*model.Certificate{"a.test": made("b")},
				map[string]string{"a.test": "b, key of b"},
				nil,
			},
			{
				"one is removed, and an unknown one too",
				map[model.Host]*model.Certificate{"a.test": nil, "c.test": nil},
				nil,
				[]string{"a.test"},
			},
		} {
			out, err := translator.Update(model.Update{Certificates: step.certificates})
			if err != nil {
				t.Fatal(err)
			}
			var changed map[string]string
			for host, message := range out.Changed[resourcev3.SecretType] {
				secret, is := message.(*tlsv3.Secret)
				if !is || secret.GetName() != host {
					t.Fatalf("%s: secret %s is %v", step.name, host, message)
				}
				if changed == nil {
					changed = map[string]string{}
				}
				of := secret.GetTlsCertificate()
				changed[host] = string(of.GetCertificateChain().GetInlineBytes()) + ", " +
					string(of.GetPrivateKey().GetInlineBytes())
			}
			want, removed := step.changed, step.removed
			if !isOn {
				want, removed = nil, nil
			}
			if diff := cmp.Diff(want, changed); diff != "" {
				t.Errorf("%s, TLS %t: secrets (-want +got):\n%s", step.name, isOn, diff)
			}
			if diff := cmp.Diff(removed, out.Removed[resourcev3.SecretType]); diff != "" {
				t.Errorf("%s, TLS %t: removed (-want +got):\n%s", step.name, isOn, diff)
			}
			if len(out.Changed[resourcev3.ListenerType]) > 0 && step.name != "none" {
				t.Errorf("%s: a listener changes", step.name)
			}
		}
	}
}

// TestTLSListenerIsIndependentOfConfig: the listener is the same for every Config, and exists only if TLS is enabled.
func TestTLSListenerIsIndependentOfConfig(t *testing.T) {
	t.Parallel()
	options := translate.DefaultOptions()
	plain, err := options.Envoy(model.Config{})
	if err != nil {
		t.Fatal(err)
	}
	options.TLS = true
	secured, err := options.Envoy(model.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if len(plain[resourcev3.ListenerType]) != 1 || len(secured[resourcev3.ListenerType]) != 2 {
		t.Fatalf("%d listeners without TLS, %d with it", len(plain[resourcev3.ListenerType]),
			len(secured[resourcev3.ListenerType]))
	}
	listener, is := secured[resourcev3.ListenerType][translate.TLSListenerName].(*listenerv3.Listener)
	if !is || listener.GetAddress().GetSocketAddress().GetPortValue() != translate.TLSPort ||
		len(listener.GetFilterChains()) != 2 {
		t.Errorf("listener %v", listener)
	}
	checkValid(t, secured)
}
