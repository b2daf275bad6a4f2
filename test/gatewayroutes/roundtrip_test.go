package gatewayroutes_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// scenarios is the folder with the routes and steps of package route.
const scenarios = "../../internal/router/gatewayapi/route/testdata"

// release is a set of CRDs.
type release struct {
	name     string
	variable string // the environment variable with the folder of its standard channel; make test-parts sets it
	channel  string // the folder of the channel, next to that of the standard channel
	kinds    []route.Kind
	optional bool // it has rule names and mirror percentages
	sessions bool // it has sessionPersistence
	steps    int  // the minimum number of scenario steps that change a route
}

// releases returns the oldest and the newest release that the router is tested with, and the experimental channel of
// the newest.
func releases() []release {
	return []release{
		{
			name: "v1.2.1", variable: "GATEWAY_API_V1_2_1_CRDS", channel: "standard", steps: 30,
			kinds: []route.Kind{route.HTTPRoute, route.GRPCRoute},
		},
		{
			name: "newest", variable: "GATEWAY_API_CRDS", channel: "standard", optional: true, steps: 30,
			kinds: []route.Kind{route.HTTPRoute, route.GRPCRoute, route.TCPRoute},
		},
		{
			name: "experimental", variable: "GATEWAY_API_CRDS", channel: "experimental", optional: true, sessions: true,
			steps: 40, kinds: []route.Kind{route.HTTPRoute, route.GRPCRoute},
		},
	}
}

// crd returns the CRD of a kind in YAML.
func (r release) crd(t *testing.T, kind route.Kind) string {
	t.Helper()
	folder := os.Getenv(r.variable)
	if folder == "" {
		t.Fatalf("%s is not set: run `make test-parts`, or set it to the path of that part", r.variable)
	}
	text, err := os.ReadFile(filepath.Join(folder, "..", r.channel,
		"gateway.networking.k8s.io_"+kind.Resource()+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestAPIServerReturnsWhatWasWritten applies the scenarios of package route to routes of the API server.
func TestAPIServerReturnsWhatWasWritten(t *testing.T) {
	binaries, err := apiserver.FromEnvironment(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	folders, err := filepath.Glob(filepath.Join(scenarios, "*"))
	if err != nil || len(folders) == 0 {
		t.Fatal("no scenarios", err)
	}
	for _, release := range releases() {
		t.Run(release.name, func(t *testing.T) {
			_, admin := start(t, binaries, release)
			written := 0
			for _, folder := range folders {
				t.Run(filepath.Base(folder), func(t *testing.T) {
					object := manifest(t, folder)
					if !slices.Contains(release.kinds, route.Kind(object["kind"].(string))) {
						return // this release does not have the kind
					}
					written += environment{admin, release}.play(t, folder, object)
				})
			}
			if written < release.steps {
				t.Errorf("only %d steps changed a route", written)
			}
		})
	}
}

// start starts an API server with the release's CRDs and the namespaces of the scenarios.
func start(
	t *testing.T, binaries apiserver.Binaries, release release,
) (*apiserver.ControlPlane, *rest.RESTClient) {
	t.Helper()
	plane, err := apiserver.Start(t.Context(), binaries, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	admin, err := plane.Client(apiserver.AdminToken)
	if err != nil {
		t.Fatal(err)
	}
	manifests := []string{
		"{apiVersion: v1, kind: Namespace, metadata: {name: shop}}",
		"{apiVersion: v1, kind: Namespace, metadata: {name: gateways}}",
	}
	for _, kind := range release.kinds {
		manifests = append(manifests, release.crd(t, kind))
	}
	if err := apiserver.Apply(t.Context(), admin, "default", manifests...); err != nil {
		t.Fatal(err)
	}
	awaitSchemas(t, admin)
	return plane, admin
}

// awaitSchemas waits until the API server has published the schemas of routes, which takes some seconds after their CRDs
// are installed. Until then the router returns an error.
func awaitSchemas(t *testing.T, admin *rest.RESTClient) {
	t.Helper()
	var problem error
	await.Described(t, "the schemas of routes", func() bool {
		var text []byte
		text, problem = admin.Get().AbsPath("/openapi/v3/apis/gateway.networking.k8s.io/v1").DoRaw(t.Context())
		return problem == nil && strings.Contains(string(text), `"kind":"HTTPRoute"`) &&
			strings.Contains(string(text), `"kind":"GRPCRoute"`)
	}, func() string { return fmt.Sprint("last error: ", problem) })
}

// manifest returns the route of a scenario, named after the scenario.
func manifest(t *testing.T, folder string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "route.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	object := map[string]any{}
	if err := yaml.Unmarshal(text, &object); err != nil {
		t.Fatal(err)
	}
	object["apiVersion"] = "gateway.networking.k8s.io/v1"
	object["metadata"].(map[string]any)["name"] = filepath.Base(folder)
	return object
}

// environment is an API server for scenarios.
type environment struct {
	admin   *rest.RESTClient
	release release
}

// play creates the route and applies the scenario's steps, except those that edit the text of the route. It returns how
// many changed the route.
func (s environment) play(t *testing.T, folder string, object map[string]any) (written int) {
	t.Helper()
	metadata := object["metadata"].(map[string]any)
	collection := fmt.Sprintf("/apis/gateway.networking.k8s.io/v1/namespaces/%s/%s", metadata["namespace"],
		route.Kind(object["kind"].(string)).Resource())
	path := collection + "/" + metadata["name"].(string)
	ctx := t.Context()
	live := answered(t)(s.admin.Post().AbsPath(collection).Param("fieldManager", user).Body(encoded(t, object)).DoRaw(ctx))
	for _, step := range steps(t, folder) {
		want := s.intent(t, step.Intent)
		changed, report, err := route.Apply(live, want)
		if err != nil || !report.Changed {
			continue // an error, which the scenario itself tests, or no change
		}
		delete(changed["metadata"].(map[string]any), "managedFields") // as the router writes
		answered(t)(s.admin.Put().AbsPath(path).Body(encoded(t, changed)).DoRaw(ctx))
		live = answered(t)(s.admin.Get().AbsPath(path).DoRaw(ctx))
		written++
		if !slices.Contains(writers(live), user) {
			t.Errorf("%s: the write has forgotten who wrote before: %q", step.Do, writers(live))
		}
		again, second, err := route.Apply(live, want)
		if err != nil || second.Changed {
			t.Errorf("%s: not stable after the write: %+v, %v\n%s", step.Do, second, err,
				cmp.Diff(live, again))
		}
		if err := route.CheckSpec(live, want); err != nil && report.SessionError == nil {
			t.Errorf("%s: %v", step.Do, err)
		}
	}
	return written
}

// user is the field manager that creates the routes.
const user = "a-user"

// writers returns the field managers in managedFields of a route.
func writers(object map[string]any) (names []string) {
	fields, _ := object["metadata"].(map[string]any)["managedFields"].([]any)
	for _, field := range fields {
		name, _ := field.(map[string]any)["manager"].(string)
		names = append(names, name)
	}
	return names
}

// step is one step of a scenario with a call.
type step struct {
	Do     string
	Intent json.RawMessage
}

// steps parses the calls of a scenario.
func steps(t *testing.T, folder string) []step {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "steps.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var all []step
	if err := yaml.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(s step) bool { return len(s.Intent) == 0 })
}

// intent returns the Intent of a step, with the schema of the release.
func (s environment) intent(t *testing.T, text json.RawMessage) route.Intent {
	t.Helper()
	want := route.Intent{
		Kind: route.HTTPRoute, Rollout: "shop/app", UID: "u-1", Namespace: "shop", Stable: "app-stable", Canary: "app-canary",
		Label: &route.Label{Key: "rollouts.argoproj.io/gatewayapi-canary", Value: "in-progress"},
	}
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	want.HasRuleNames, want.HasMirrorPercent = s.release.optional, s.release.optional
	want.HasSessions = s.release.sessions
	return want
}

// encoded returns a route in JSON.
func encoded(t *testing.T, object map[string]any) []byte {
	t.Helper()
	text, err := utiljson.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// answered parses a route in a response of the API server.
func answered(t *testing.T) func(text []byte, err error) map[string]any {
	t.Helper()
	return func(text []byte, err error) map[string]any {
		t.Helper()
		if err != nil {
			t.Fatalf("the API server: %v\n%s", err, strings.TrimSpace(string(text)))
		}
		object := map[string]any{}
		if err := utiljson.Unmarshal(text, &object); err != nil {
			t.Fatal(err)
		}
		return object
	}
}
