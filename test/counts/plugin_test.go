package counts_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	apitypes "k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/pluginprocess"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

// accounts are the ServiceAccounts of the plugins by token.
var accounts = map[string]string{
	apiserver.RolloutsToken:     "system:serviceaccount:argo-rollouts:argo-rollouts",
	apiserver.UnprivilegedToken: "system:serviceaccount:default:unprivileged",
}

// requests are numbers of requests by verb and resource, such as "get httpscaledobjects".
type requests map[string]int

// plugin is a plugin process.
type plugin struct {
	*pluginprocess.Process

	account  string
	counted  int      // the number of counted events of the audit log
	excluded requests // requests that are not counted per call
}

// start starts a plugin as the user of token. The excluded requests are not counted per call.
func start(t *testing.T, command, token string, excluded ...string) *plugin {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := shared.WriteKubeconfig(kubeconfig, token); err != nil {
		t.Fatal(err)
	}
	p := &plugin{account: accounts[token], excluded: requests{}}
	p.Process = pluginprocess.Run(t, filepath.Join(shared.folder, command), kubeconfig)
	for _, request := range excluded {
		p.excluded[request] = 0
	}
	return p
}

// newRequests counts the requests of the plugin since the last call. The audit log has the end of a request before its
// response is complete.
func (p *plugin) newRequests(t *testing.T) requests {
	t.Helper()
	events, err := shared.audit.RequestsOf(p.account)
	if err != nil {
		t.Fatal(err)
	}
	counts := requests{}
	for _, event := range events[p.counted:] {
		request := event.Verb + " " + cmp.Or(event.ObjectRef.Resource, event.RequestURI)
		if _, isExcluded := p.excluded[request]; isExcluded {
			p.excluded[request]++
		} else {
			counts[request]++
		}
	}
	p.counted = len(events)
	return counts
}

// step is a call for all Rollouts in parallel, with the wanted requests per Rollout.
type step struct {
	name   string
	before func(n int) error // a change to Rollout n by another client; nil for none
	call   func(n int) error
	want   requests // nil for none
}

// run runs steps one after the other.
func (p *plugin) run(t *testing.T, steps ...step) {
	t.Helper()
	for _, step := range steps {
		if step.before != nil {
			forAll(t, step.name, step.before)
		}
		p.newRequests(t)
		forAll(t, step.name, step.call)
		want := requests{}
		for request, count := range step.want {
			want[request] = count * rollouts
		}
		if diff := gocmp.Diff(want, p.newRequests(t)); diff != "" {
			t.Errorf("%s: requests for %d Rollouts (-want +got):\n%s", step.name, rollouts, diff)
		}
	}
}

// forAll calls do for all Rollouts in parallel.
func forAll(t *testing.T, name string, do func(n int) error) {
	t.Helper()
	var group errgroup.Group
	for n := range rollouts {
		group.Go(func() error { return do(n) })
	}
	if err := group.Wait(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// awaitWatch waits until a call that changes nothing sends no request.
func (p *plugin) awaitWatch(t *testing.T, call func(n int) error) {
	t.Helper()
	var last requests
	defer func() {
		if t.Failed() {
			t.Logf("the last requests: %v", last)
		}
	}()
	await.True(t, "calls without a request, once the watch is open", func() bool {
		p.newRequests(t)
		forAll(t, "while the watch opens", call)
		last = p.newRequests(t)
		return len(last) == 0
	})
}

// rollout returns Rollout n, with config for router. Its Services have its name.
func rollout(n int, router, config string) *v1alpha1.Rollout {
	r := routertest.Rollout(router, config)
	r.Name, r.UID = fmt.Sprintf("web-%d", n), apitypes.UID(fmt.Sprintf("uid-of-%d", n))
	canary := r.Spec.Strategy.Canary
	canary.StableService, canary.CanaryService = r.Name+"-stable", r.Name+"-canary"
	r.Spec.Replicas = new(int32(2))
	return r
}

// calls are the calls for the Rollouts of one router.
type calls struct {
	*plugin

	rollout func(n int) *v1alpha1.Rollout
}

// atWeight returns the calls of a later reconcile: the status of the Rollouts has this canary weight.
func (c calls) atWeight(weight int32) calls {
	rolloutOf := c.rollout
	c.rollout = func(n int) *v1alpha1.Rollout {
		r := rolloutOf(n)
		r.Status.Canary.Weights = &v1alpha1.TrafficWeights{Canary: v1alpha1.WeightDestination{Weight: weight}}
		return r
	}
	return c
}

func (c calls) setWeight(weight int32) func(n int) error {
	return func(n int) error { return pluginprocess.AsError(c.SetWeight(c.rollout(n), weight, nil)) }
}

func (c calls) updateHash(canary, stable string) func(n int) error {
	return func(n int) error { return pluginprocess.AsError(c.UpdateHash(c.rollout(n), canary, stable, nil)) }
}

func (c calls) removeManagedRoutes(n int) error {
	return pluginprocess.AsError(c.RemoveManagedRoutes(c.rollout(n)))
}

// headerRoute returns a step that routes testers to the canary.
func headerRoute() *v1alpha1.SetHeaderRoute {
	role := v1alpha1.HeaderRoutingMatch{HeaderName: "role", HeaderValue: &v1alpha1.StringMatch{Exact: "qa"}}
	return &v1alpha1.SetHeaderRoute{Name: "qa", Match: []v1alpha1.HeaderRoutingMatch{role}}
}

func (c calls) setHeaderRoute(n int) error {
	return pluginprocess.AsError(c.SetHeaderRoute(c.rollout(n), headerRoute()))
}

// mirrorRoute returns a step that mirrors requests to the canary.
func mirrorRoute() *v1alpha1.SetMirrorRoute {
	api := v1alpha1.RouteMatch{Path: &v1alpha1.StringMatch{Prefix: "/api"}}
	return &v1alpha1.SetMirrorRoute{Name: "copies", Percentage: new(int32(10)), Match: []v1alpha1.RouteMatch{api}}
}

func (c calls) setMirrorRoute(n int) error {
	return pluginprocess.AsError(c.SetMirrorRoute(c.rollout(n), mirrorRoute()))
}

var errUnexpectedlyVerified = errors.New("unexpectedly verified")

// expectUnverified calls VerifyWeight and expects that the weight isn't verified.
func (c calls) expectUnverified(weight int32) func(n int) error {
	return func(n int) error {
		verified, answer := c.VerifyWeight(c.rollout(n), weight, nil)
		if verified == types.Verified {
			return errUnexpectedlyVerified
		}
		return pluginprocess.AsError(answer)
	}
}

// verify calls VerifyWeight until the weight is verified: the watch may deliver the report a moment later.
func (c calls) verify(ctx context.Context, weight int32) func(n int) error {
	return func(n int) error {
		var answer types.RpcError
		late := await.Until(ctx, "the weight to be verified", func() bool {
			var verified types.RpcVerified
			verified, answer = c.VerifyWeight(c.rollout(n), weight, nil)
			return verified == types.Verified || answer.HasError()
		}, func() string { return "it is not verified" })
		return errors.Join(late, pluginprocess.AsError(answer))
	}
}

// reconcile makes the calls of the controller for a promoted Rollout (argo-rollouts v1.10.1 rollout/trafficrouting.go,
// reconcileTrafficRouting).
func (c calls) reconcile(ctx context.Context) func(n int) error {
	return func(n int) error {
		for _, call := range []func(n int) error{
			c.removeManagedRoutes, c.updateHash("new", "new"), c.setWeight(0), c.verify(ctx, 0),
		} {
			if err := call(n); err != nil {
				return err
			}
		}
		return nil
	}
}
