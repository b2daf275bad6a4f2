package scenarios_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
)

const (
	// leasePath is the API path of the interceptors' Lease.
	leasePath = "/apis/coordination.k8s.io/v1/namespaces/keda/leases/kedify-http-interceptor"
	// rolePath is the API path of the controller's role, which allows to get Leases.
	rolePath = "/apis/rbac.authorization.k8s.io/v1/clusterroles/argo-rollouts"
	// reportInterval is the pause between two passes of an interceptor.
	reportInterval = 200 * time.Millisecond
)

// TestCanaryWaitsForAnInterceptor kills the interceptor in the middle of a canary, and later at its full weight. While
// none runs, no weight passes that no report confirms, whatever happens to the Lease. Aborts do not wait. A cluster that
// never had an interceptor, or has none any more, is judged by the annotation alone.
func TestCanaryWaitsForAnInterceptor(t *testing.T) {
	var used release
	for _, r := range releases() {
		if r.manifest != chartVariable {
			used = r // the newest one
		}
	}
	used.name += ", interceptor"
	c := start(t, used)
	if err := apiserver.CreateNamespace(t.Context(), c.admin, "keda"); err != nil {
		t.Fatal(err)
	}
	waiting, aborted := c.withRollout(t, "waiting"), c.withRollout(t, "aborted") // before any interceptor
	interceptor := startInterceptor(t, c.admin, waiting.namespace, aborted.namespace)
	for _, s := range []*environment{waiting, aborted} {
		s.update("2")
		s.awaitPause("20")
	}
	interceptor.kill()

	waiting.promote()
	waiting.awaitSplit("50")
	aborted.abort()
	degraded(aborted)
	waiting.awaitEvent("WeightNotVerified", "no interceptor renews its Lease")
	deleteLease(t, c)
	waiting.staysAt("2", "50", "the Lease is deleted")
	allow := forbidLeases(t, c)
	waiting.staysAt("2", "50", "the Lease may not be read")
	allow()
	interceptor = startInterceptor(t, c.admin, waiting.namespace)
	waiting.awaitPause("50")
	interceptor.kill()

	waiting.promote()
	waiting.awaitSplit("100")
	waiting.await("the plugin finds the Lease stale again", "2", func() string {
		return strconv.Itoa(strings.Count(waiting.allLog("kedify"), "no interceptor renews its Lease: new weights"))
	})
	waiting.staysAt("4", "100", "the full weight")
	uninstalled := `{"spec":{"holderIdentity":"uninstalled"}}`
	if err := c.admin.Patch(types.MergePatchType).AbsPath(leasePath).Body([]byte(uninstalled)).
		Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	healthy(waiting)
	waiting.compare("web", "0 20 50 100 0", "")
	aborted.compare("web", "0 20 0", "")
}

// withRollout returns an environment with a healthy Rollout.
func (c *cluster) withRollout(t *testing.T, namespace string) *environment {
	t.Helper()
	s := &environment{cluster: c, t: t, router: kedify, namespace: namespace, seen: map[string]int{}}
	s.controllers = append(s.controllers, c.main)
	s.prepare()
	s.rollout(scenario{steps: twoSteps}, "1")
	s.awaitPhase("Healthy")
	return s
}

// staysAt waits until the controller has called its router twice more for an unverified weight, and checks that the
// Rollout is still at its step, with its old Pods.
func (s *environment) staysAt(step, weight, when string) {
	s.t.Helper()
	calls := func() int { return strings.Count(s.allLog(s.namespace), weight+" not yet verified") }
	before, stable := calls(), s.status("stableRS")
	s.await("unverified calls: "+when, "true", func() string { return strconv.FormatBool(calls() > before+1) })
	if got := s.status("currentStepIndex"); got != step || s.status("stableRS") != stable {
		s.t.Errorf("%s: the Rollout is at step %s with the stable version %s, want step %s and %s", when, got,
			s.status("stableRS"), step, stable)
	}
}

// allLog returns all lines of the controller's log that contain text.
func (s *environment) allLog(text string) string {
	lines, err := s.main.LogLines(text, 1<<30)
	if err != nil {
		return err.Error()
	}
	return lines
}

// awaitEvent waits until the Rollout has a Warning Event with that reason and text.
func (s *environment) awaitEvent(reason, text string) {
	s.t.Helper()
	s.await("an Event "+reason, "found", func() string {
		var events struct {
			Items []struct{ Type, Reason, Message string }
		}
		body, err := s.admin.Get().AbsPath("/api/v1/namespaces/" + s.namespace + "/events").DoRaw(s.t.Context())
		if err != nil || json.Unmarshal(body, &events) != nil {
			return "no answer"
		}
		for _, event := range events.Items {
			if event.Type == "Warning" && event.Reason == reason && strings.Contains(event.Message, text) {
				return "found"
			}
		}
		return fmt.Sprint(len(events.Items), " other Events")
	})
}

// deleteLease deletes the Lease.
func deleteLease(t *testing.T, c *cluster) {
	t.Helper()
	if err := c.admin.Delete().AbsPath(leasePath).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
}

// forbidLeases removes the controller's permission for Leases until allow is called.
func forbidLeases(t *testing.T, c *cluster) (allow func()) {
	t.Helper()
	var role rbacv1.ClusterRole
	body, err := c.admin.Get().AbsPath(rolePath).DoRaw(t.Context())
	if err = errors.Join(err, json.Unmarshal(body, &role)); err != nil {
		t.Fatal(err)
	}
	before := role.Rules
	set := func(rules []rbacv1.PolicyRule) {
		t.Helper()
		if err := apiserver.Patch(t.Context(), c.admin, rolePath, "test", map[string]any{"rules": rules}); err != nil {
			t.Fatal(err)
		}
	}
	rules := slices.DeleteFunc(slices.Clone(before), func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.Resources, "leases")
	})
	if len(rules) == len(before) {
		t.Fatal("the controller's role has no rule for Leases")
	}
	set(rules)
	return func() { set(before) }
}

// interceptor renews the Lease, and reports that the only proxy has acknowledged the objects web.
type interceptor struct{ kill func() }

// startInterceptor starts an interceptor for the objects of namespaces. It runs until it is killed or the test ends.
func startInterceptor(t *testing.T, admin rest.Interface, namespaces ...string) interceptor {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for {
			_ = renewLease(ctx, admin) // the next pass repeats it
			for _, namespace := range namespaces {
				_ = report(ctx, admin, namespace)
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(reportInterval):
			}
		}
	})
	kill := func() { cancel(); running.Wait() }
	t.Cleanup(kill)
	return interceptor{kill}
}

// renewLease renews the Lease, and creates it if it does not exist.
func renewLease(ctx context.Context, admin rest.Interface) error {
	return apiserver.Apply(ctx, admin, "keda", fmt.Sprintf(
		`{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: kedify-http-interceptor}, `+
			`spec: {holderIdentity: interceptor-1, renewTime: %q}}`,
		time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00")))
}

// report writes the report on the object web of a namespace, unless it is up to date.
func report(ctx context.Context, admin rest.Interface, namespace string) error {
	path := "/apis/http.keda.sh/v1alpha1/namespaces/" + namespace + "/httpscaledobjects/web"
	var object httpv1alpha1.HTTPScaledObject
	body, err := admin.Get().AbsPath(path).DoRaw(ctx)
	if err = errors.Join(err, json.Unmarshal(body, &object)); err != nil {
		return err
	}
	hash := split.Hash(object.Annotations[httpv1alpha1.AnnotationWeightedBackends],
		object.Annotations[httpv1alpha1.AnnotationManagedRoutes])
	if reported := object.Status.DataPlane; reported != nil && reported.AnnotationHash == hash {
		return nil
	}
	return apiserver.Patch(ctx, admin, path+"/status", "interceptor", map[string]any{
		"status": map[string]any{"dataPlane": httpv1alpha1.DataPlaneStatus{
			AnnotationHash: hash, Proxies: httpv1alpha1.ProxyCounts{Ready: 1, Acked: 1}, Effective: true,
			ReportedBy: "interceptor-1", ResourceVersion: object.ResourceVersion,
		}},
	})
}
