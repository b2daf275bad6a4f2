package autowire_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
)

// grpcProtocol is the annotation of ingress-nginx for the protocol to the application.
const grpcProtocol = nginx + "backend-protocol"

// named returns an object with another name.
func named(object, name string) string { return strings.Replace(object, "name: web", "name: "+name, 1) }

// annotate sets an annotation of an object, or removes it if value is empty.
func (w *fixture) annotate(t *testing.T, at int, name, value string) {
	t.Helper()
	w.stored[at] = edited(t, w.stored[at], func(object map[string]any) {
		meta := object["metadata"].(map[string]any)
		annotations, _ := meta["annotations"].(map[string]any)
		if annotations == nil {
			annotations = map[string]any{}
			meta["annotations"] = annotations
		}
		if annotations[name] = value; value == "" {
			delete(annotations, name)
		}
	})
}

// step computes a plan, and compares the settings of target or rival shop after it, whether the first object is wired,
// and when to plan again.
func (w *fixture) step(t *testing.T, what, settings string, isWired bool, requeueAfter time.Duration) {
	t.Helper()
	found := w.plan(t)
	w.applySettings(found.Settings)
	for _, change := range found.Changes {
		w.write(t, change)
	}
	var got string
	for _, object := range slices.Concat(w.Rivals, w.Targets) {
		got = object.Settings
	}
	if got != settings || found.RequeueAfter != requeueAfter {
		t.Errorf("%s: settings %s, want %s; again in %v, want %v", what, got, settings, found.RequeueAfter, requeueAfter)
	}
	if strings.Contains(w.stored[0], `"name":"kedify-proxy"`) != isWired {
		t.Errorf("%s: wired: %v\n%s", what, !isWired, asYAML(t, w.stored[0]))
	}
}

// TestProtocolIsTakenOver: nothing is wired until every proxy uses HTTP/2 to the application.
func TestProtocolIsTakenOver(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ports []corev1.ServicePort
		want  string
	}{
		"a port without a name":  {[]corev1.ServicePort{{Port: 80}}, inH2C},
		"a name for HTTP/1.1":    {[]corev1.ServicePort{{Port: 80, Name: "http"}}, inH2C},
		"an unknown Service":     {nil, inH2C},
		"another port's is HTTP": {[]corev1.ServicePort{{Port: 80}, {Port: 81, AppProtocol: new("http")}}, inH2C},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, store("/", grpcProtocol, "GRPC"))
			w.Services["shop"] = service("", test.ports...)
			w.Targets = []autowire.Target{target("shop", "shop.test")}
			w.expectPending(t, test.want)
			w.expect(t, "Wired: Ingress web, shop.test/")
		})
	}
	w := newFixture(t, store("/", grpcProtocol, "GRPC", nginx+"affinity", "cookie"))
	w.Targets = []autowire.Target{target("shop", "shop.test")}
	w.expectPending(t, strings.Replace(byCookie, "{", `{"protocol":"h2c",`, 1))
	w.expect(t, "Wired: Ingress web, shop.test/")
}

// TestSettingsWhileWired changes what the Ingress of a wired backend requests, and the annotation. The backend stays
// wired: the proxies receive its requests in any case, and have the settings a moment later.
func TestSettingsWhileWired(t *testing.T) {
	t.Parallel()
	w := newFixture(t, store("/"))
	w.Targets = []autowire.Target{target("shop", "shop.test")}
	w.step(t, "no settings", "", true, 0)
	w.annotate(t, 0, nginx+"affinity", "cookie")
	w.step(t, "a cookie", byCookie, true, 0)
	w.Targets[0].AreSettingsPending = true
	w.step(t, "a proxy lacks it", byCookie, true, 0)
	w.Targets[0].Settings = ""
	w.step(t, "a user removes it", byCookie, true, 0)
	w.Targets[0].Settings = "{cookie: {}}"
	w.step(t, "a user changes it", byCookie, true, 0)
	w.annotate(t, 0, nginx+"affinity", "")
	w.annotate(t, 0, nginx+"upstream-hash-by", "$http_x_user")
	w.step(t, "a header", byUser, true, 0)
	w.annotate(t, 0, grpcProtocol, "GRPC")
	w.step(t, "gRPC, too", strings.Replace(byUser, "{", `{"protocol":"h2c",`, 1), true, 0)
	w.annotate(t, 0, grpcProtocol, "")
	w.annotate(t, 0, nginx+"upstream-hash-by", "$request_uri")
	w.step(t, "the path", "", false, 0)
	w.annotate(t, 0, nginx+"upstream-hash-by", "")
	w.step(t, "earlier settings may be active", "", false, 0)
	w.Targets[0].AreSettingsPending = false
	w.step(t, "nothing", "", true, 0)
}

// TestUnusedSettings: after the last backend is restored, the settings stay until the Ingress controller has received
// that.
func TestUnusedSettings(t *testing.T) {
	t.Parallel()
	const unused = `{"protocol":"h2c","unusedSince":"2026-05-01T12:00:00Z"}`
	for name, optOut := range map[string]func(*fixture){
		"the target opts out": func(w *fixture) { w.Rivals, w.Targets = w.Targets, nil },
		"the host changes":    func(w *fixture) { w.Targets[0].Hosts = []string{"other.test"} },
		"the kind changes":    func(w *fixture) { w.Targets[0].Kinds = w.Targets[0].Kinds[1:] },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, store("/", grpcProtocol, "GRPC"))
			w.Targets = []autowire.Target{target("shop", "shop.test")}
			before := w.Targets[0]
			w.step(t, "the annotation", inH2C, false, 0)
			w.step(t, "wired", inH2C, true, 0)
			optOut(w)
			w.step(t, "restored", inH2C, false, 0)
			w.step(t, "unused", unused, false, 30*time.Second)
			w.Now = w.Now.Add(29 * time.Second)
			w.step(t, "for a while", unused, false, time.Second)
			w.Targets, w.Rivals = []autowire.Target{before}, nil
			w.Targets[0].Settings = unused
			w.step(t, "used again", inH2C, false, 0)
			w.step(t, "wired again", inH2C, true, 0)
			optOut(w)
			w.step(t, "restored again", inH2C, false, 0)
			w.step(t, "unused again", strings.Replace(unused, ":00Z", ":29Z", 1), false, 30*time.Second)
			w.Now = w.Now.Add(30 * time.Second)
			w.step(t, "for longer", "", false, 0)
			w.step(t, "nothing is left", "", false, 0)
		})
	}
}

// TestUnusedSettingsAtRest: no event follows the write that releases the fields of a restored Ingress, so the time must
// be set in the same plan.
func TestUnusedSettingsAtRest(t *testing.T) {
	t.Parallel()
	w := newFixture(t, strings.Replace(store("/", grpcProtocol, "GRPC"), "name: web", "name: web, managedFields: ["+
		"{manager: kedify-http-agent, operation: Update, fieldsType: FieldsV1, fieldsV1: {'f:spec': {}}}]", 1))
	w.Rivals = []autowire.Target{target("shop", "shop.test")}
	w.Rivals[0].Settings = inH2C
	if found := w.plan(t); len(found.Changes) != 1 {
		t.Fatalf("changes %+v, want the release of the fields", found.Changes)
	}
	w.step(t, "released", `{"protocol":"h2c","unusedSince":"2026-05-01T12:00:00Z"}`, false, 30*time.Second)
}

// TestSettingsOfDeletedIngress deletes a wired Ingress: its controller sends requests for a while.
func TestSettingsOfDeletedIngress(t *testing.T) {
	t.Parallel()
	w := newFixture(t, route("cart.test", toShop), store("/", grpcProtocol, "GRPC"))
	w.Targets = []autowire.Target{target("shop", "shop.test")}
	w.converge(t)
	w.stored = w.stored[:1]
	const unused = `{"protocol":"h2c","unusedSince":"2026-05-01T12:00:00Z"}`
	w.step(t, "deleted", unused, false, 30*time.Second)
	w.Now = w.Now.Add(time.Hour)
	w.step(t, "long ago", "", false, 0)
}

// TestForeignSettings has annotations that the agent has not written.
func TestForeignSettings(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"invalid": "h2c", "of a later version": `{"protocol":"h2c","timeout":"5s"}`, "empty": "{}",
		"unused in the future": `{"protocol":"h2c","unusedSince":"2026-05-01T13:00:00Z"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, store("/"))
			w.Rivals = []autowire.Target{target("shop", "shop.test")}
			w.Rivals[0].Settings = text
			w.step(t, "a rival's", "", false, 0)
			w = newFixture(t, store("/"))
			w.Targets = []autowire.Target{target("shop", "shop.test")}
			w.Targets[0].Settings = text
			w.step(t, "a target's", "", false, 0)
			w.step(t, "without them", "", true, 0)
		})
	}
}

// TestConflictingSettings has two Ingresses with a backend for one target.
func TestConflictingSettings(t *testing.T) {
	t.Parallel()
	cookie, grpc := store("/", nginx+"affinity", "cookie"), store("/", grpcProtocol, "GRPC")
	const noProtocol = `ProtocolMismatch: Ingress web, shop.test/: annotation nginx.ingress.kubernetes.io/backend-protocol: "GRPC" uses ` +
		`HTTP/2 to the application, and a backend without a protocol in KIND other uses HTTP/1.1; set appProtocol: ` +
		`kubernetes.io/h2c on port 80 of Service shop`
	tests := map[string]struct {
		one, other string
		settings   string
		wired      []bool
		says       string // the condition, or its beginning
	}{
		"affinities": {
			cookie, store("/b", "haproxy.org/load-balance", "source"), "",
			[]bool{false, false},
			`AffinityMissing: Ingress web, shop.test/: annotation nginx.ingress.kubernetes.io/affinity: "cookie" and annotation ` +
				`haproxy.org/load-balance: "source" in Ingress other send a client to the same Pod in different ways; set ` +
				`sessionAffinity in the trigger of HTTPScaledObject "shop", or its annotation http.kedify.io/session-affinity, for ` +
				`example to {cookie: {name: kedify-session}}; Ingress other, shop.test/b: annotation haproxy.org/load-balance: "source" ` +
				`and annotation nginx.ingress.kubernetes.io/affinity: "cookie" in Ingress web send`,
		},
		"protocols": {
			grpc, store("/b", grpcProtocol, "HTTP"), "",
			[]bool{false, true},
			`ProtocolMismatch: Ingress web, shop.test/: annotation nginx.ingress.kubernetes.io/backend-protocol: "GRPC" uses HTTP/2 to ` +
				`the application, and annotation nginx.ingress.kubernetes.io/backend-protocol: "HTTP" in Ingress other uses HTTP/1.1; ` +
				`set appProtocol: kubernetes.io/h2c on port 80 of Service shop`,
		},
		"the same affinity":         {cookie, store("/b", appgw+"cookie-based-affinity", "true"), byCookie, []bool{true, true}, "Wired"},
		"one affinity":              {cookie, store("/b"), byCookie, []bool{true, true}, "Wired"},
		"one that the proxies lack": {cookie, store("/b", nginx+"upstream-hash-by", "$request_uri"), byCookie, []bool{true, false}, "AffinityMissing: Ingress other"},
		"one protocol":              {grpc, store("/b"), "", []bool{false, true}, strings.ReplaceAll(noProtocol, "KIND", "Ingress")},
		"a route":                   {grpc, route("shop.test", toShop), "", []bool{false, true}, strings.ReplaceAll(noProtocol, "KIND", "HTTPRoute")},
		"the same protocol":         {grpc, store("/b", "haproxy.org/server-proto", "h2"), inH2C, []bool{true, true}, "Wired"},
		"a canary of another app":   {cookie, strings.ReplaceAll(store("/b", "haproxy.org/load-balance", "source"), "name: shop", "name: cart"), byCookie, []bool{true, false}, "Wired"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, test.one, named(test.other, "other"))
			originals := append([]string{}, w.stored...)
			w.Targets = []autowire.Target{target("shop", "shop.test")}
			condition := w.converge(t).Conditions["shop"]
			if says := condition.Reason + ": " + condition.Message; !strings.HasPrefix(says, test.says) {
				t.Errorf("condition %q, want %q", says, test.says)
			}
			if got := w.Targets[0].Settings; got != test.settings {
				t.Errorf("settings %s, want %s", got, test.settings)
			}
			for i, isWired := range test.wired {
				if strings.Contains(w.stored[i], `"name":"kedify-proxy"`) != isWired {
					t.Errorf("wired: %v\n%s", !isWired, asYAML(t, w.stored[i]))
				}
			}
			if diff := cmp.Diff(originals, w.unwired(t)); diff != "" {
				t.Errorf("unwired (-want +got):\n%s", diff)
			}
		})
	}
}

// TestConflictWhileWired adds an Ingress that disagrees. The first one is restored, and its requests that are on their
// way still have the settings.
func TestConflictWhileWired(t *testing.T) {
	t.Parallel()
	w := newFixture(t, store("/", nginx+"affinity", "cookie", grpcProtocol, "GRPC"))
	w.Targets = []autowire.Target{target("shop", "shop.test")}
	both := strings.Replace(byCookie, "{", `{"protocol":"h2c",`, 1)
	w.step(t, "the annotation", both, false, 0)
	w.step(t, "wired", both, true, 0)
	w.stored = append(w.stored, canonicalJSON(t, named(store("/b", nginx+"upstream-hash-by", "$http_x_user", grpcProtocol, "HTTP"), "other")))
	w.step(t, "another one disagrees", both, false, 0)
	w.step(t, "as long as it does", both, false, 0)
	w.stored = w.stored[:1]
	w.step(t, "it is deleted", both, true, 0)
}

// TestProtocolConflictWhileWired adds an Ingress with HTTP/1.1 for a target that has HTTP/2. It keeps that for the
// requests of the first Ingress that are on their way, so neither is wired until one of them is gone.
func TestProtocolConflictWhileWired(t *testing.T) {
	t.Parallel()
	for text, other := range map[string]string{
		`annotation nginx.ingress.kubernetes.io/backend-protocol: "HTTP"`: store("/b", grpcProtocol, "HTTP"),
		"a backend without a protocol":                                    store("/b"),
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, store("/", grpcProtocol, "GRPC"))
			w.Targets = []autowire.Target{target("shop", "shop.test")}
			w.converge(t)
			w.stored = append(w.stored, canonicalJSON(t, named(other, "other")))
			condition := w.converge(t).Conditions["shop"]
			says := "Ingress other, shop.test/b: " + text + ` uses HTTP/1.1 to the application, and annotation ` +
				`nginx.ingress.kubernetes.io/backend-protocol: "GRPC" in Ingress web uses HTTP/2; set appProtocol on port 80 ` +
				`of Service shop`
			if condition.Reason != "ProtocolMismatch" || !strings.Contains(condition.Message, says) {
				t.Errorf("condition %+v, want ProtocolMismatch with %q", condition, says)
			}
			if settings := w.Targets[0].Settings; settings != inH2C {
				t.Errorf("settings %s, want %s", settings, inH2C)
			}
			for _, stored := range w.stored {
				if strings.Contains(stored, `"name":"kedify-proxy"`) {
					t.Errorf("wired:\n%s", asYAML(t, stored))
				}
			}
			w.stored = w.stored[1:]
			w.step(t, "the first one is deleted", "", false, 0)
			w.step(t, "every proxy has HTTP/1.1", "", true, 0)
		})
	}
}

// TestBackendWithoutProtocol has Ingresses without a protocol. One of them stays wired with HTTP/1.1 if another Ingress
// requests HTTP/2. All have HTTP/2 if an annotation of the Service requests it.
func TestBackendWithoutProtocol(t *testing.T) {
	t.Parallel()
	w := newFixture(t, store("/"))
	w.Targets = []autowire.Target{target("shop", "shop.test")}
	w.step(t, "alone", "", true, 0)
	w.stored = append(w.stored, canonicalJSON(t, named(store("/b", grpcProtocol, "GRPC"), "other")))
	w.step(t, "next to gRPC", "", true, 0)
	if strings.Contains(w.stored[1], `"name":"kedify-proxy"`) {
		t.Errorf("wired:\n%s", asYAML(t, w.stored[1]))
	}
	const contour = "projectcontour.io/upstream-protocol.h2c"
	w = newFixture(t, store("/"), named(store("/b"), "other"))
	w.Services["shop"] = service(contour+`: "80"`, corev1.ServicePort{Port: 80})
	w.Services["kedify-proxy"], w.HasHTTP2Proxy = http2Proxies(contour+`: "8081"`), true
	w.Targets = []autowire.Target{target("shop", "shop.test")}
	w.step(t, "the Service's", inH2C, false, 0)
	w.step(t, "every proxy has it", inH2C, true, 0)
	if !strings.Contains(w.stored[1], `"name":"kedify-proxy"`) {
		t.Errorf("not wired:\n%s", asYAML(t, w.stored[1]))
	}
}

// TestProtocolOfPortEndsConflict has Ingresses with HTTP/2 and HTTP/1.1 for a target that has HTTP/2. A port that
// selects one of the two protocols decides.
func TestProtocolOfPortEndsConflict(t *testing.T) {
	t.Parallel()
	for protocol, wired := range map[string][]bool{"http": {false, true}, "kubernetes.io/h2c": {true, true}} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, store("/", grpcProtocol, "GRPC"), named(store("/b", grpcProtocol, "HTTP"), "other"))
			w.Targets = []autowire.Target{target("shop", "shop.test")}
			w.Targets[0].Settings = inH2C
			w.Services["kedify-proxy"], w.HasHTTP2Proxy = http2Proxies(""), true
			w.converge(t)
			w.Services["shop"] = service("", corev1.ServicePort{Port: 80, AppProtocol: &protocol})
			w.converge(t)
			for i, isWired := range wired {
				if strings.Contains(w.stored[i], `"name":"kedify-proxy"`) != isWired {
					t.Errorf("wired: %v\n%s", !isWired, asYAML(t, w.stored[i]))
				}
			}
			if settings := w.Targets[0].Settings; settings != "" {
				t.Errorf("settings %s, want none", settings)
			}
		})
	}
}

// TestKeptSettings has backends that reference the proxies without a restore record: the agent does not know what they
// need.
func TestKeptSettings(t *testing.T) {
	t.Parallel()
	manual := route("shop.test", `backendRefs: [{name: kedify-proxy, port: 8080}]`)
	for name, test := range map[string]struct {
		object   string
		host     string
		settings string
		want     string
	}{
		"written by a user":   {manual, "shop.test", inH2C, inH2C},
		"unused before":       {manual, "shop.test", `{"protocol":"h2c","unusedSince":"2026-05-01T11:00:00Z"}`, inH2C},
		"of another host":     {manual, "cart.test", inH2C, `{"protocol":"h2c","unusedSince":"2026-05-01T12:00:00Z"}`},
		"nothing to keep":     {manual, "shop.test", "", ""},
		"without the proxies": {route("shop.test", toShop), "shop.test", inH2C, `{"protocol":"h2c","unusedSince":"2026-05-01T12:00:00Z"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, test.object)
			w.Rivals = []autowire.Target{target("shop", test.host)}
			w.Rivals[0].Settings = test.settings
			w.applySettings(w.plan(t).Settings)
			if got := w.Rivals[0].Settings; got != test.want {
				t.Errorf("settings %s, want %s", got, test.want)
			}
		})
	}
	w := newFixture(t, store("/", grpcProtocol, "GRPC"))
	w.Targets = []autowire.Target{target("shop", "shop.test")}
	w.converge(t)
	w.annotate(t, 0, undo, "broken")
	w.step(t, "an unreadable restore record", inH2C, true, 0)
	w.Rivals, w.Targets = w.Targets, nil
	w.step(t, "and an opt-out", inH2C, true, 0)
}
