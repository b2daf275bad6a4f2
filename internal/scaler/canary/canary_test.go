package canary_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/scaler"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/canary"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// list responds to a list request with items, and keeps a watch open.
func list(items ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") == "" {
			_, _ = fmt.Fprintf(w, `{"metadata": {"resourceVersion": "1"}, "items": [%s]}`, strings.Join(items, ","))
			return
		}
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

// forbid responds as the API server does without the permission to list.
func forbid(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	_, _ = fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403}`)
}

// watch runs a Watcher against an API server with these responses until the test ends.
func watch(t *testing.T, objects, rollouts http.HandlerFunc) *canary.Watcher {
	t.Helper()
	return watchLogging(t, slog.DiscardHandler, objects, rollouts)
}

// watchLogging is watch with a handler of the Watcher's log.
func watchLogging(t *testing.T, handler slog.Handler, objects, rollouts http.HandlerFunc) *canary.Watcher {
	t.Helper()
	return watchAll(t, handler, objects, list(), rollouts)
}

// watchAll is watchLogging with InterceptorRoutes.
func watchAll(t *testing.T, handler slog.Handler, objects, routes, rollouts http.HandlerFunc) *canary.Watcher {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/apis/http.keda.sh/v1beta1/interceptorroutes", routes)
	mux.HandleFunc("/apis/http.keda.sh/v1alpha1/httpscaledobjects", objects)
	mux.HandleFunc("/apis/argoproj.io/v1alpha1/rollouts", rollouts)
	server := httptest.NewServer(mux)
	watcher := canary.New(func() (*rest.Config, error) { return &rest.Config{Host: server.URL}, nil })
	done := make(chan error, 1)
	go func() { done <- watcher.Run(t.Context(), slog.New(handler)) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
		server.CloseClientConnections()
		server.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections() //nolint:forbidigo // client-go's, for the leak check
	})
	return watcher
}

// inProgress waits until a Watcher has the object, and returns whether a canary is in progress.
func inProgress(t *testing.T, watcher *canary.Watcher, name types.NamespacedName) (inProgress bool) {
	t.Helper()
	await.True(t, "whether a canary is under way", func() bool {
		var err error
		inProgress, err = watcher.InProgress(name)
		return err == nil
	})
	return inProgress
}

func TestInProgress(t *testing.T) {
	t.Parallel()
	const weights = `"http.kedify.io/weighted-backends": "- {service: a, weight: 80}\n- {service: b, weight: 20}"`
	const optOut = `"http.kedify.io/keep-active-during-canary": "false"`
	const rollout = `{"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "web"}`
	const deployment = `{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}`
	const foreign = `{"apiVersion": "example.com/v1", "kind": "Rollout", "name": "web"}`
	const between, promoted = `"stableRS": "a", "currentPodHash": "b"`, `"stableRS": "a", "currentPodHash": "a"`
	tests := map[string]struct {
		annotations, target, status string
		want                        bool
	}{
		"requests are shared":                        {weights, deployment, promoted, true},
		"requests are split, but keep-active is off": {weights + "," + optOut, rollout, between, false},
		"the Rollout is between versions":            {"", rollout, between, true},
		"a canary, but keep-active is off":           {optOut, rollout, between, false},
		"any other value minds": {
			`"http.kedify.io/keep-active-during-canary": "true"`, rollout, between, true,
		},
		"the Rollout is promoted":                      {"", rollout, promoted, false},
		"the Rollout was aborted":                      {"", rollout, between + `, "abort": true`, false},
		"the first version of all":                     {"", rollout, `"currentPodHash": "b"`, false},
		"the target is no Rollout":                     {"", deployment, between, false},
		"the target is a Rollout of another API group": {"", foreign, between, false},
		"the target's API group is left out":           {"", `{"kind": "Rollout", "name": "web"}`, between, true},
		"the target is a Rollout that doesn't exist":   {"", `{"kind": "Rollout", "name": "other"}`, between, false},
		"the target is not named":                      {"", `{}`, between, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			watcher := watch(t,
				list(fmt.Sprintf(`{"metadata": {"namespace": "shop", "name": "web-http", "resourceVersion": "1", "annotations": {%s}},
					"spec": {"scaleTargetRef": %s}}`, test.annotations, test.target)),
				list(fmt.Sprintf(`{"metadata": {"namespace": "shop", "name": "web", "resourceVersion": "1"}, "status": {%s}}`,
					test.status),
					`{"metadata": {"namespace": "bank", "name": "other", "resourceVersion": "1"}, "status": {"stableRS": "a", "currentPodHash": "b"}}`))
			if got := inProgress(t, watcher, types.NamespacedName{Namespace: "shop", Name: "web-http"}); got != test.want {
				t.Errorf("a canary is under way: %v", got)
			}
			if got, err := watcher.InProgress(
				types.NamespacedName{Namespace: "shop", Name: "absent"},
			); got || !errors.Is(err, scaler.ErrNoObject) {
				t.Errorf("an object that does not exist: %v, %v", got, err)
			}
		})
	}
}

// TestChanges starts a canary of an object's Rollout, and sets weights of an object.
func TestChanges(t *testing.T) {
	t.Parallel()
	events := map[string]chan string{"HTTPScaledObject": make(chan string), "Rollout": make(chan string)}
	follow := func(kind, item string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("watch") == "" {
				list(item)(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = http.NewResponseController(w).Flush()
			for {
				select {
				case event := <-events[kind]:
					_, _ = fmt.Fprintln(w, event)
					_ = http.NewResponseController(w).Flush()
				case <-r.Context().Done():
					return
				}
			}
		}
	}
	const rollout = `{"metadata": {"namespace": "shop", "name": "web", "resourceVersion": "%d"}, "status": {"stableRS": "a", "currentPodHash": %q}}`
	const object = `{"metadata": {"namespace": "shop", "name": "web-http", "resourceVersion": "%d", "annotations": {%s}},
		"spec": {"scaleTargetRef": {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "web"}}}`
	watcher := watch(
		t, follow("HTTPScaledObject", fmt.Sprintf(object, 1, "")), follow("Rollout", fmt.Sprintf(rollout, 1, "a")),
	)
	name := types.NamespacedName{Namespace: "shop", Name: "web-http"}
	if inProgress(t, watcher, name) {
		t.Fatal("a canary is under way")
	}
	changes := watcher.Changes(name)
	events["Rollout"] <- `{"type": "MODIFIED", "object": ` + fmt.Sprintf(rollout, 2, "b") + `}`
	<-changes[1]
	if !inProgress(t, watcher, name) {
		t.Error("the Rollout's canary is not under way")
	}
	changes = watcher.Changes(name)
	events["Rollout"] <- `{"type": "MODIFIED", "object": ` + fmt.Sprintf(rollout, 3, "a") + `}`
	<-changes[1]
	changes = watcher.Changes(name)
	weighted := strings.ReplaceAll(fmt.Sprintf(object, 4, `"http.kedify.io/weighted-backends": "x"`), "\n", "")
	events["HTTPScaledObject"] <- `{"type": "MODIFIED", "object": ` + weighted + `}`
	<-changes[0]
	if !inProgress(t, watcher, name) {
		t.Error("requests are shared, and no canary is under way")
	}
	if none := watcher.Changes(types.NamespacedName{Namespace: "shop", Name: "absent"}); none[0] == nil || none[1] == nil {
		t.Errorf("of an object that does not exist: %v", none)
	}
}

// TestInterceptorRouteInProgress: a Rollout that names an InterceptorRoute for the router is its target. An
// HTTPScaledObject of the same name decides instead.
func TestInterceptorRouteInProgress(t *testing.T) {
	t.Parallel()
	object := func(name, annotations string) string {
		return fmt.Sprintf(`{"metadata": {"namespace": "shop", "name": %q, "resourceVersion": "1", "annotations": {%s}}}`,
			name, annotations)
	}
	rollout := func(name, config, current string) string {
		return fmt.Sprintf(`{"metadata": {"namespace": "shop", "name": %q, "resourceVersion": "1"}, "spec": {"strategy": {"canary":
			{"trafficRouting": {"plugins": {"kedify/http": %s}}}}}, "status": {"stableRS": "a", "currentPodHash": %q}}`,
			name, config, current)
	}
	watcher := watchAll(t, slog.DiscardHandler,
		list(object("both", "")),
		list(object("both", `"http.kedify.io/weighted-backends": "x"`), object("split", `"http.kedify.io/weighted-backends": "x"`),
			object("rolling", ""), object("off", `"http.kedify.io/keep-active-during-canary": "false"`), object("stable", ""),
			object("unnamed", "")),
		list(rollout("one", `{"interceptorRoute": "rolling"}`, "b"), rollout("two", `{"interceptorRoute": "off"}`, "b"),
			rollout("three", `{"interceptorRoute": "stable"}`, "a"), rollout("invalid", `{"interceptorRoute": 1}`, "b"),
			rollout("text", `"interceptorRoute"`, "b")))
	for name, want := range map[string]bool{
		"both": false, "split": true, "rolling": true, "off": false, "stable": false, "unnamed": false,
	} {
		if got := inProgress(t, watcher, types.NamespacedName{Namespace: "shop", Name: name}); got != want {
			t.Errorf("%s: a canary is in progress: %v, want %v", name, got, want)
		}
		if changes := watcher.Changes(types.NamespacedName{Namespace: "shop", Name: name}); changes[0] == nil {
			t.Errorf("%s: no channel of changes", name)
		}
	}
}

// TestWithoutInterceptorRoutes has a cluster without their CustomResourceDefinition: nothing else depends on it.
func TestWithoutInterceptorRoutes(t *testing.T) {
	t.Parallel()
	const object = `{"metadata": {"namespace": "shop", "name": "web", "resourceVersion": "1"}}`
	watcher := watchAll(t, slog.DiscardHandler, list(object), http.NotFound, list())
	if inProgress(t, watcher, types.NamespacedName{Namespace: "shop", Name: "web"}) {
		t.Error("a canary is in progress")
	}
	absent := types.NamespacedName{Namespace: "shop", Name: "absent"}
	if _, err := watcher.InProgress(absent); !errors.Is(err, scaler.ErrNoObject) {
		t.Errorf("an object that does not exist: %v", err)
	}
}

// TestInterceptorRouteWithoutRollouts: any Rollout may name an InterceptorRoute. In a cluster without Argo Rollouts none
// does. Without the permission to watch Rollouts it is unknown.
func TestInterceptorRouteWithoutRollouts(t *testing.T) {
	t.Parallel()
	const route = `{"metadata": {"namespace": "shop", "name": "web", "resourceVersion": "1"}}`
	web := types.NamespacedName{Namespace: "shop", Name: "web"}
	if inProgress(t, watchAll(t, slog.DiscardHandler, list(), list(route), http.NotFound), web) {
		t.Error("a canary is in progress")
	}
	denied := watchAll(t, slog.DiscardHandler, list(), list(route), forbid)
	await.True(t, "it is unknown without the permission", func() bool {
		_, err := denied.InProgress(web)
		return errors.Is(err, canary.ErrUnknown) && strings.Contains(err.Error(), "Rollouts cannot be watched")
	})
}

// TestUnknownWithoutAWatch has a cluster without Argo Rollouts, or without the permission to watch Rollouts. Only
// targets that are Rollouts depend on them.
func TestUnknownWithoutAWatch(t *testing.T) {
	t.Parallel()
	object := func(name, kind string) string {
		return fmt.Sprintf(
			`{"metadata": {"namespace": "shop", "name": %q, "resourceVersion": "1"}, "spec": {"scaleTargetRef": {"kind": %q, "name": "web"}}}`,
			name, kind,
		)
	}
	for name, rollouts := range map[string]http.HandlerFunc{"forbidden": forbid, "not installed": http.NotFound} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			watcher := watch(t, list(object("plain", "Deployment"), object("canary", "Rollout")), rollouts)
			if inProgress(t, watcher, types.NamespacedName{Namespace: "shop", Name: "plain"}) {
				t.Error("a Deployment is in a canary")
			}
			if _, err := watcher.InProgress(
				types.NamespacedName{Namespace: "shop", Name: "canary"},
			); !errors.Is(err, canary.ErrUnknown) {
				t.Errorf("of a Rollout target: %v, want unknown", err)
			}
		})
	}
	blind := canary.New(func() (*rest.Config, error) { return nil, errors.New("no configuration") })
	if _, err := blind.InProgress(
		types.NamespacedName{Namespace: "shop", Name: "plain"},
	); !errors.Is(err, canary.ErrUnknown) {
		t.Errorf("before the first list: %v, want unknown", err)
	}
}

// recorder is a slog.Handler that passes records on.
type recorder chan slog.Record

func (recorder) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (r recorder) Handle(_ context.Context, record slog.Record) error {
	r <- record
	return nil
}

// WithAttrs implements slog.Handler.
func (r recorder) WithAttrs([]slog.Attr) slog.Handler { return r }

// WithGroup implements slog.Handler.
func (r recorder) WithGroup(string) slog.Handler { return r }

// TestLogWithoutRollouts: Argo Rollouts is optional, so a missing CRD is logged at level info. A missing permission is
// a warning.
func TestLogWithoutRollouts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rollouts http.HandlerFunc
		level    slog.Level
		fix      string
	}{
		"not installed": {
			http.NotFound, slog.LevelInfo,
			"not needed without Argo Rollouts; otherwise install the CustomResourceDefinition rollouts.argoproj.io",
		},
		"forbidden": {
			forbid, slog.LevelWarn,
			"allow the scaler's ServiceAccount to list and watch rollouts in all namespaces: apply config/scaler",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			records := make(recorder, 10)
			watchLogging(t, records, list(), c.rollouts)
			record := <-records
			texts := map[string]string{}
			record.Attrs(func(attr slog.Attr) bool {
				texts[attr.Key] = attr.Value.String()
				return true
			})
			if record.Level != c.level || texts["objects"] != "Rollouts" || texts["fix"] != c.fix ||
				texts["meanwhile"] != "KEDA gets an error for workloads without demand whose target is a Rollout" {
				t.Errorf("logged at %v: %s %v", record.Level, record.Message, texts)
			}
		})
	}
}
