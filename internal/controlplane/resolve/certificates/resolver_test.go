package certificates_test

import (
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/certificates"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

const host = "shop.example.com"

// route returns a Route of an object that names a Secret.
func route(namespace, owner, secret string, age int, on model.Host, path string) model.Route {
	return model.Route{
		Owner: model.Key{Namespace: namespace, Name: owner}, Secret: secret, Created: time.Unix(int64(1000-age), 0),
		Match: model.Match{Host: on, PathPrefix: path},
	}
}

// hostRoutes are the Routes of one fleet by host.
type hostRoutes map[model.Host][]model.Route

// updates returns the Routes as an Update of a fleet.
func (h hostRoutes) updates(fleet model.Fleet) map[model.Fleet]model.Update {
	update := model.Update{Hosts: map[model.Host]model.Config{}}
	for on, routes := range h {
		update.Hosts[on] = model.Config{Routes: routes}
	}
	return map[model.Fleet]model.Update{fleet: update}
}

// result is the state of a Resolver after some Updates.
type result struct {
	Certificates map[model.Host]string // the Secret by host
	NoServerName string                // the Secret for clients without a server name
	Reasons      map[string][]string
	Pending      []string
}

func TestResolver(t *testing.T) {
	t.Parallel()
	key := func(name string) model.Key { return model.Key{Namespace: "apps", Name: name} }
	secret := func(name string, serial int64, hosts ...string) *certificates.Secret {
		return certificates.Parse(kit.NewTLSSecret(t, "apps", name, serial, hosts...))
	}
	secrets := func(all ...any) map[model.Key]*certificates.Secret {
		out := map[model.Key]*certificates.Secret{}
		for i := 0; i < len(all); i += 2 {
			name, _ := all[i].(string)
			out[key(name)], _ = all[i+1].(*certificates.Secret)
		}
		return out
	}
	deleted, invalid := &certificates.Secret{}, &certificates.Secret{Invalid: "it is upside down"}
	forbidden := &certificates.Secret{Unreadable: "it is forbidden"}
	one := hostRoutes{host: {route("apps", "shop", "tls", 1, host, "/")}}
	type step struct {
		hosts   hostRoutes
		secrets map[model.Key]*certificates.Secret
	}
	for name, c := range map[string]struct {
		steps []step
		want  result
	}{
		"no Secret is named": {
			[]step{{
				hostRoutes{host: {route("apps", "shop", "", 1, host, "/")}},
				secrets("tls", secret("tls", 1, host)),
			}}, result{},
		},
		"the host has the Secret's certificate": {
			[]step{{one, secrets("tls", secret("tls", 1, host))}},
			result{Certificates: map[model.Host]string{host: "apps/tls"}, NoServerName: "apps/tls"},
		},
		"Secret not read yet": {[]step{{one, nil}}, result{Pending: []string{"shop"}}},
		"Secret created later": {
			[]step{{one, nil}, {nil, secrets("tls", secret("tls", 1, host))}},
			result{Certificates: map[model.Host]string{host: "apps/tls"}, NoServerName: "apps/tls"},
		},
		"missing Secret": {
			[]step{{one, secrets("tls", deleted)}},
			result{Reasons: map[string][]string{"shop": {"SecretNotFound"}}},
		},
		"invalid Secret": {
			[]step{{one, secrets("tls", invalid)}},
			result{Reasons: map[string][]string{"shop": {"InvalidSecret"}}},
		},
		"forbidden Secret": {
			[]step{{one, secrets("tls", forbidden)}},
			result{Reasons: map[string][]string{"shop": {"SecretUnreadable"}}},
		},
		"invalid Secret name": {
			[]step{{hostRoutes{host: {route("apps", "shop", "other/tls", 1, host, "/")}}, nil}},
			result{Reasons: map[string][]string{"shop": {"InvalidSecretName"}}},
		},
		"the last valid certificate stays active after an invalid update": {
			[]step{{one, secrets("tls", secret("tls", 1, host))}, {nil, secrets("tls", invalid)}},
			result{
				Certificates: map[model.Host]string{host: "apps/tls"}, NoServerName: "apps/tls",
				Reasons: map[string][]string{"shop": {"InvalidSecret"}},
			},
		},
		"the last valid certificate stays active without permission": {
			[]step{{one, secrets("tls", secret("tls", 1, host))}, {nil, secrets("tls", forbidden)}},
			result{
				Certificates: map[model.Host]string{host: "apps/tls"}, NoServerName: "apps/tls",
				Reasons: map[string][]string{"shop": {"SecretUnreadable"}},
			},
		},
		"deleted Secret": {
			[]step{{one, secrets("tls", secret("tls", 1, host))}, {nil, secrets("tls", deleted)}},
			result{Reasons: map[string][]string{"shop": {"SecretNotFound"}}},
		},
		"invalid Secret after a deletion": {
			[]step{
				{one, secrets("tls", secret("tls", 1, host))},
				{nil, secrets("tls", deleted)},
				{nil, secrets("tls", invalid)},
			},
			result{Reasons: map[string][]string{"shop": {"InvalidSecret"}}},
		},
		"object without Secret": {
			[]step{
				{one, secrets("tls", secret("tls", 1, host))},
				{hostRoutes{host: {route("apps", "shop", "", 1, host, "/")}}, nil},
			}, result{},
		},
		"host removed": {
			[]step{{one, secrets("tls", secret("tls", 1, host))}, {hostRoutes{host: nil}, nil}},
			result{},
		},
		"a certificate for another host is active and reported": {
			[]step{{one, secrets("tls", secret("tls", 1, "other.example.com"))}},
			result{
				Certificates: map[model.Host]string{host: "apps/tls"}, NoServerName: "apps/tls",
				Reasons: map[string][]string{"shop": {"HostNotCovered"}},
			},
		},
		"a wildcard certificate covers a host and itself": {
			[]step{{hostRoutes{
				host:            {route("apps", "shop", "tls", 1, host, "/")},
				"*.example.com": {route("apps", "shop", "tls", 1, "*.example.com", "/")},
			}, secrets("tls", secret("tls", 1, "*.example.com"))}},
			result{Certificates: map[model.Host]string{host: "apps/tls", "*.example.com": "apps/tls"}, NoServerName: "apps/tls"},
		},
		"a host certificate does not cover a wildcard": {
			[]step{{
				hostRoutes{"*.example.com": {route("apps", "shop", "tls", 1, "*.example.com", "/")}},
				secrets("tls", secret("tls", 1, host)),
			}},
			result{
				Certificates: map[model.Host]string{"*.example.com": "apps/tls"}, NoServerName: "apps/tls",
				Reasons: map[string][]string{"shop": {"HostNotCovered"}},
			},
		},
		"the oldest object's certificate is active, regardless of paths": {
			[]step{{
				hostRoutes{host: {route("apps", "young", "b", 1, host, "/app"), route("apps", "old", "a", 9, host, "/")}},
				secrets("a", secret("a", 1, host), "b", secret("b", 1, host)),
			}},
			result{
				Certificates: map[model.Host]string{host: "apps/a"}, NoServerName: "apps/a",
				Reasons: map[string][]string{"young": {"CertificateConflict"}},
			},
		},
		"two objects with the same Secret": {
			[]step{{
				hostRoutes{host: {route("apps", "young", "a", 1, host, "/app"), route("apps", "old", "a", 9, host, "/")}},
				secrets("a", secret("a", 1, host)),
			}},
			result{Certificates: map[model.Host]string{host: "apps/a"}, NoServerName: "apps/a"},
		},
		"an invalid Secret of the oldest object does not count": {
			[]step{{
				hostRoutes{host: {route("apps", "young", "b", 1, host, "/app"), route("apps", "old", "a", 9, host, "/")}},
				secrets("a", invalid, "b", secret("b", 1, host)),
			}},
			result{
				Certificates: map[model.Host]string{host: "apps/b"}, NoServerName: "apps/b",
				Reasons: map[string][]string{"old": {"InvalidSecret"}},
			},
		},
		"clients without a server name receive the oldest object's certificate": {
			[]step{{
				hostRoutes{
					"a.test": {route("apps", "young", "b", 1, "a.test", "/")},
					host:     {route("apps", "old", "a", 9, host, "/")},
				},
				secrets("a", secret("a", 1, host), "b", secret("b", 1, "a.test")),
			}},
			result{Certificates: map[model.Host]string{host: "apps/a", "a.test": "apps/b"}, NoServerName: "apps/a"},
		},
		"the next object's certificate is used after a deletion": {
			[]step{{
				hostRoutes{
					"a.test": {route("apps", "young", "b", 1, "a.test", "/")},
					host:     {route("apps", "old", "a", 9, host, "/")},
				},
				secrets("a", secret("a", 1, host), "b", secret("b", 1, "a.test")),
			}, {nil, secrets("a", deleted)}},
			result{
				Certificates: map[model.Host]string{"a.test": "apps/b"}, NoServerName: "apps/b",
				Reasons: map[string][]string{"old": {"SecretNotFound"}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			book := certificates.NewResolver()
			for _, step := range c.steps {
				book.Update(step.hosts.updates("apps"), step.secrets)
			}
			var got result
			for at, certificate := range book.ForFleet("apps") {
				if at == model.NoServerName {
					got.NoServerName = certificate.Secret.String()
					continue
				}
				if got.Certificates == nil {
					got.Certificates = map[model.Host]string{}
				}
				got.Certificates[at] = certificate.Secret.String()
			}
			for _, owner := range []string{"old", "shop", "young"} {
				state := book.State(key(owner), "spec.hosts")
				if state == nil {
					continue
				}
				if state.IsPending {
					got.Pending = append(got.Pending, owner)
				}
				for _, problem := range state.Problems {
					if got.Reasons == nil {
						got.Reasons = map[string][]string{}
					}
					got.Reasons[owner] = append(got.Reasons[owner], problem.Reason)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("the Resolver (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSecretsOfOtherNamespacesAreNotUsed has two objects of two namespaces in one fleet name Secrets of the same
// name.
func TestSecretsOfOtherNamespacesAreNotUsed(t *testing.T) {
	t.Parallel()
	book := certificates.NewResolver()
	book.Update(hostRoutes{
		"a.test": {route("a", "shop", "tls", 1, "a.test", "/")}, "b.test": {route("b", "shop", "tls", 1, "b.test", "/")},
	}.updates("keda"), map[model.Key]*certificates.Secret{
		{Namespace: "a", Name: "tls"}: certificates.Parse(kit.NewTLSSecret(t, "a", "tls", 1, "a.test", "b.test")),
	})
	got := book.ForFleet("keda")
	if len(got) != 2 || got["a.test"] == nil || got["a.test"] != got[model.NoServerName] {
		t.Errorf("certificates: %v, want only that of a.test, also for clients without a server name", got)
	}
	if wanted := book.ReferencedSecrets(); len(wanted) != 2 {
		t.Errorf("referenced Secrets: %v", wanted)
	}
	if state := book.State(model.Key{Namespace: "b", Name: "shop"}, "spec.hosts"); !state.IsPending {
		t.Errorf("b/shop: %+v", state)
	}
	if other := book.ForFleet("a"); len(other) != 0 {
		t.Errorf("another fleet has %v", other)
	}
}

// TestMessagesNameObjectFieldAndFix checks each message.
func TestMessagesNameObjectFieldAndFix(t *testing.T) {
	t.Parallel()
	valid := certificates.Parse(kit.NewTLSSecret(t, "apps", "tls", 1, "x.test"))
	for name, c := range map[string]struct {
		secret *certificates.Secret
		want   string
	}{
		"gone": {
			&certificates.Secret{},
			`annotation http.kedify.io/tls-secret-name: Secret "tls" not found in namespace "apps": create it or name ` +
				`another Secret of the namespace`,
		},
		"denied": {
			&certificates.Secret{Unreadable: "no: allow it"},
			`annotation http.kedify.io/tls-secret-name: Secret "tls" cannot be read, so no certificate of it is active: no: ` +
				`allow it`,
		},
		"wrong": {
			&certificates.Secret{Invalid: "no: mend it"},
			`annotation http.kedify.io/tls-secret-name: Secret "tls": no: mend it (until then no certificate of it is active)`,
		},
		"other hosts": {
			valid,
			`Secret "tls": the certificate is active but does not cover a.test, b.test, c.test and 1 more, so clients that ` +
				`verify it reject it: ` +
				`renew it with these names, or change spec.rules`,
		},
	} {
		book, hosts := certificates.NewResolver(), hostRoutes{}
		for _, host := range []model.Host{"a.test", "b.test", "c.test", "d.test"} {
			hosts[host] = []model.Route{route("apps", "shop", "tls", 1, host, "/")}
		}
		book.Update(hosts.updates("apps"), map[model.Key]*certificates.Secret{{Namespace: "apps", Name: "tls"}: c.secret})
		state := book.State(model.Key{Namespace: "apps", Name: "shop"}, "spec.rules")
		if len(state.Problems) != 1 || state.Problems[0].Message != c.want {
			t.Errorf("%s: %+v, want %s", name, state.Problems, c.want)
		}
	}
}

// TestUpdatesAddUp applies random changes. After each, the sum of all certificate updates must equal the active
// certificates, and the result of a Resolver that receives everything at once.
func TestUpdatesAddUp(t *testing.T) {
	t.Parallel()
	var pool []*certificates.Secret
	for serial := range int64(4) {
		pool = append(pool, certificates.Parse(kit.NewTLSSecret(t, "apps", "x", serial, "*.test")))
	}
	for seed := range uint64(30) {
		random := mathrand.New(mathrand.NewPCG(seed, 1))
		book, sum := certificates.NewResolver(), map[model.Host]*model.Certificate{}
		hosts, secrets := hostRoutes{}, map[model.Key]*certificates.Secret{}
		type object struct {
			secret     string
			age, hosts int
		}
		var objects [3]object
		for step := range 60 {
			changed, read := hostRoutes{}, map[model.Key]*certificates.Secret{}
			for range random.IntN(3) { // Add, change or remove an object. An update contains all Routes of a host.
				owner := random.IntN(3)
				objects[owner] = object{[]string{"", "a", "b", "c"}[random.IntN(4)], random.IntN(3), random.IntN(32)}
				for i := range 5 {
					on := model.Host(fmt.Sprintf("h%d.test", i))
					var routes []model.Route
					for owner, is := range objects {
						if is.hosts>>i&1 == 1 {
							routes = append(routes, route("apps", fmt.Sprint("o", owner), is.secret, is.age, on, fmt.Sprint("/", owner)))
						}
					}
					changed[on], hosts[on] = routes, routes
				}
			}
			for range random.IntN(2) {
				name := model.Key{Namespace: "apps", Name: string("abc"[random.IntN(3)])}
				read[name] = pool[random.IntN(len(pool))]
				if random.IntN(3) == 0 {
					read[name] = &certificates.Secret{}
				}
				secrets[name] = read[name]
			}
			updates := changed.updates("apps")
			book.Update(updates, read)
			for on, certificate := range updates["apps"].Certificates {
				if sum[on] = certificate; certificate == nil {
					delete(sum, on)
				}
			}
			whole := certificates.NewResolver()
			whole.Update(hosts.updates("apps"), secrets)
			if diff := cmp.Diff(whole.ForFleet("apps"), sum); diff != "" {
				t.Fatalf("seed %d, step %d: certificates (-whole +sum):\n%s", seed, step, diff)
			}
			if diff := cmp.Diff(whole.ReferencedSecrets(), book.ReferencedSecrets()); diff != "" {
				t.Fatalf("seed %d, step %d: referenced Secrets (-whole +sum):\n%s", seed, step, diff)
			}
			for owner := range 3 {
				on := model.Key{Namespace: "apps", Name: fmt.Sprint("o", owner)}
				if diff := cmp.Diff(whole.State(on, "spec.hosts"), book.State(on, "spec.hosts")); diff != "" {
					t.Fatalf("seed %d, step %d: state of %s (-whole +sum):\n%s", seed, step, on, diff)
				}
			}
		}
		book.ResetHosts()
		updates := hosts.updates("apps")
		book.Update(updates, nil)
		again := updates["apps"].Certificates
		maps.DeleteFunc(again, func(_ model.Host, certificate *model.Certificate) bool { return certificate == nil })
		if diff := cmp.Diff(sum, again); diff != "" && len(sum) > 0 {
			t.Fatalf("seed %d: after ResetHosts (-before +again):\n%s", seed, diff)
		}
	}
}

func TestSecretOf(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"tls": true, "shop.example.com-tls": true, "": false, "other/tls": false,
		"TLS": false, "*": false,
	} {
		object := kit.WithAnnotation(kit.NewScaledObject("apps", "shop", "shop", 1, host),
			httpv1alpha1.AnnotationTLSSecretName, name)
		if key, names := certificates.SecretOf(object); names != want || key != (model.Key{Namespace: "apps", Name: name}) {
			t.Errorf("SecretOf with %q: %s, %v", name, key, names)
		}
	}
}
