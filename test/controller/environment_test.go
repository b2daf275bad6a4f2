package controller_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// environment is a new namespace in a cluster.
type environment struct {
	*cluster

	t         *testing.T
	namespace string
}

// TestGatewayAPI runs all scenarios with each release of the Gateway API, one release after another.
func TestGatewayAPI(t *testing.T) {
	for _, release := range releases() {
		t.Run(release.name, func(t *testing.T) {
			c := start(t, release)
			for name, play := range map[string]func(*environment){
				"weights from the first step to the promotion":   weightSteps,
				"an abort restores the route":                    abortRestoresRoute,
				"a full promotion removes header routes":         fullPromotionRemovesHeaderRoutes,
				"two header routes in the order of the Rollout":  headerRouteOrder,
				"every rule with both Services, and its filters": rulesWithBothServices,
				"two Rollouts on one route":                      twoRolloutsOnOneRoute,
				"a route in another namespace":                   routeInOtherNamespace,
				"a canary by headers alone has the label":        headerOnlyCanaryHasLabel,
				"the limit of 16 rules is a clear error":         ruleLimitError,
				"routes of other kinds":                          otherRouteKinds,
				"defaults of the API server":                     unchangedRouteIsNotWritten,
				"a silent Gateway stops a promotion":             silentGatewayStopsPromotion,
				"a silent Gateway does not stop an abort":        silentGatewayAllowsAbort,
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					namespace := strings.NewReplacer(" ", "-", ",", "").Replace(strings.ToLower(name))
					s := &environment{cluster: c, t: t, namespace: namespace}
					s.apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + s.namespace + "}}")
					t.Cleanup(func() { s.logState() })
					play(s)
				})
			}
		})
	}
}

// apply applies manifests in the namespace.
func (s *environment) apply(manifests ...string) {
	s.t.Helper()
	if err := apiserver.Apply(s.t.Context(), s.admin, s.namespace, manifests...); err != nil {
		s.t.Fatal(err)
	}
}

// logState logs the state after a failed test.
func (s *environment) logState() {
	s.t.Helper()
	if !s.t.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), await.Patience())
	defer cancel()
	for _, path := range []string{
		"/apis/argoproj.io/v1alpha1/namespaces/" + s.namespace + "/rollouts",
		"/apis/gateway.networking.k8s.io/v1/namespaces/" + s.namespace + "/httproutes",
	} {
		var read struct {
			Items []struct{ Metadata, Spec, Status map[string]any }
		}
		body, err := s.admin.Get().AbsPath(path).DoRaw(ctx)
		if err = errors.Join(err, json.Unmarshal(body, &read)); err != nil {
			s.t.Error(err)
		}
		for _, item := range read.Items {
			delete(item.Metadata, "managedFields")
			s.t.Logf("%s: %v", path, item)
		}
	}
	lines, err := s.controller.LogLines(s.namespace, 60)
	if err != nil {
		s.t.Error(err)
	}
	s.t.Logf("the controller's log:\n%s", lines)
}

// rollout applies a Rollout with its Services <name>-stable and <name>-canary, and waits until its first version is
// healthy. given is the router's configuration and steps are the canary's steps, both in YAML's flow style.
func (s *environment) rollout(name, given, managedRoutes, steps string) {
	s.t.Helper()
	for _, role := range []string{"stable", "canary"} {
		s.apply(fmt.Sprintf(
			"{apiVersion: v1, kind: Service, metadata: {name: %s-%s}, "+
				"spec: {selector: {app: %s}, ports: [{port: 80, targetPort: 8080}]}}", name, role, name,
		))
	}
	s.apply(fmt.Sprintf(`
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: %[1]s}
spec:
  replicas: 2
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}, annotations: {version: "1"}}
    spec: {containers: [{name: app, image: example.com/app}]}
  strategy:
    canary:
      stableService: %[1]s-stable
      canaryService: %[1]s-canary
      trafficRouting:
        managedRoutes: %[3]s
        plugins: {argoproj-labs/gatewayAPI: %[2]s}
      steps: %[4]s
`, name, given, managedRoutes, steps))
	s.await("the first version is healthy", "Healthy", func(ctx context.Context) string { return s.phase(ctx, name) })
}

// path returns the REST path of a Rollout.
func (s *environment) path(rollout string) string {
	return "/apis/argoproj.io/v1alpha1/namespaces/" + s.namespace + "/rollouts/" + rollout
}

// phase returns the phase of a Rollout after the controller has observed its newest generation.
func (s *environment) phase(ctx context.Context, rollout string) string {
	var read struct {
		Metadata struct{ Generation int64 }
		Status   struct{ Phase, ObservedGeneration string }
	}
	body, err := s.admin.Get().AbsPath(s.path(rollout)).DoRaw(ctx)
	if err != nil || json.Unmarshal(body, &read) != nil ||
		read.Status.ObservedGeneration != strconv.FormatInt(read.Metadata.Generation, 10) {
		return ""
	}
	return read.Status.Phase
}

// update starts a new version of a Rollout and waits until the Rollout pauses.
func (s *environment) update(rollout, version string) {
	s.t.Helper()
	s.merge(s.path(rollout), `{"spec":{"template":{"metadata":{"annotations":{"version":"`+version+`"}}}}}`)
	s.paused(rollout)
}

// paused waits until a Rollout pauses.
func (s *environment) paused(rollout string) {
	s.t.Helper()
	s.await(rollout+" pauses", "Paused", func(ctx context.Context) string { return s.phase(ctx, rollout) })
}

// promote continues a paused Rollout, as kubectl argo rollouts promote does.
func (s *environment) promote(rollout string) {
	s.t.Helper()
	s.merge(s.path(rollout)+"/status", `{"status":{"pauseConditions":null}}`)
}

// finish continues a paused Rollout and waits until its new version is the stable one.
func (s *environment) finish(rollout string) {
	s.t.Helper()
	s.promote(rollout)
	s.await(rollout+" is promoted", "Healthy", func(ctx context.Context) string { return s.phase(ctx, rollout) })
}

// abort aborts a Rollout, as kubectl argo rollouts abort does.
func (s *environment) abort(rollout string) {
	s.t.Helper()
	s.merge(s.path(rollout)+"/status", `{"status":{"abort":true}}`)
	s.await(rollout+" is aborted", "Degraded", func(ctx context.Context) string { return s.phase(ctx, rollout) })
}

// merge sends a merge patch to path.
func (s *environment) merge(path, patch string) {
	s.t.Helper()
	if err := s.admin.Patch(types.MergePatchType).AbsPath(path).Body([]byte(patch)).Do(s.t.Context()).Error(); err != nil {
		s.t.Fatalf("%s: %v", path, err)
	}
}

// await waits until get returns want.
func (s *environment) await(what, want string, get func(context.Context) string) {
	s.t.Helper()
	ctx := await.Context(s.t)
	got, next := "", time.Time{}
	await.Described(s.t, what, func() bool {
		if time.Now().After(next) {
			got, next = get(ctx), time.Now().Add(pollEvery)
		}
		return got == want
	}, func() string { return "(-want +got):\n" + cmp.Diff(want, got) })
}

// expectRoute waits until the summary of a route, named by its path below the namespace, is want.
func (s *environment) expectRoute(when, route, want string) {
	s.t.Helper()
	s.expectRouteIn(when, s.namespace, route, want)
}

func (s *environment) expectRouteIn(when, namespace, route, want string) {
	s.t.Helper()
	resource, _, _ := strings.Cut(route, "/")
	path := "/apis/gateway.networking.k8s.io/" + s.release.versions[resource] + "/namespaces/" + namespace + "/" + route
	s.await(when+": "+route, strings.TrimSpace(want), func(ctx context.Context) string {
		body, err := s.admin.Get().AbsPath(path).DoRaw(ctx)
		if err != nil {
			return err.Error()
		}
		return summary(body)
	})
}

// event waits until a Rollout has an Event that contains text.
func (s *environment) event(rollout, text string) {
	s.t.Helper()
	s.await("an event of "+rollout+" with "+text, "", func(ctx context.Context) string {
		var events struct {
			Items []struct {
				Reason, Message string
				InvolvedObject  struct{ Name string }
			}
		}
		body, err := s.admin.Get().AbsPath("/api/v1/namespaces/" + s.namespace + "/events").DoRaw(ctx)
		if err != nil || json.Unmarshal(body, &events) != nil {
			return "no answer"
		}
		var seen []string
		for _, event := range events.Items {
			if event.InvolvedObject.Name == rollout && strings.Contains(event.Message, text) {
				return ""
			}
			seen = append(seen, event.Reason+": "+event.Message)
		}
		return strings.Join(seen, "\n")
	})
}

// summary returns a short text of a route: a line for each rule with its matches, filters and weighted backends, and
// the in-progress label if the route has it. It omits rule names, because old releases of the Gateway API have none.
func summary(route []byte) string {
	type match struct {
		Path    struct{ Value string }
		Headers []struct{ Name, Value string }
	}
	var read struct {
		Metadata struct{ Labels map[string]string }
		Spec     struct {
			Rules []struct {
				Matches     []match
				Filters     []struct{ Type string }
				BackendRefs []struct {
					Name   string
					Weight *int32
				}
			}
		}
	}
	if err := json.Unmarshal(route, &read); err != nil {
		return err.Error()
	}
	var lines []string
	for _, rule := range read.Spec.Rules {
		var words []string
		for _, match := range rule.Matches {
			words = append(words, match.Path.Value)
			for _, header := range match.Headers {
				words = append(words, header.Name+"="+header.Value)
			}
		}
		for _, filter := range rule.Filters {
			words = append(words, "+"+filter.Type)
		}
		words = append(words, "->")
		for _, backend := range rule.BackendRefs {
			word := backend.Name
			if backend.Weight != nil {
				word += fmt.Sprint(":", *backend.Weight)
			}
			words = append(words, word)
		}
		lines = append(lines, strings.Join(words, " "))
	}
	for _, key := range slices.Sorted(maps.Keys(read.Metadata.Labels)) {
		lines = append(lines, key+"="+read.Metadata.Labels[key])
	}
	return strings.Join(lines, "\n")
}
