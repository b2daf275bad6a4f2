package counts_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/stall"
)

const (
	patchObject = "patch httpscaledobjects"
	getObject   = "get httpscaledobjects"
	listObjects = "list httpscaledobjects"
	getLease    = "get leases"
	// getEndpoints is a request of both routers.
	getEndpoints = "get endpoints"
	createEvent  = "create events"
)

// scaledObject is the HTTPScaledObject of a Rollout with the same name.
const scaledObject = `{apiVersion: http.keda.sh/v1alpha1, kind: HTTPScaledObject, metadata: {name: %s},
  spec: {hosts: [%[1]s.test], scaleTargetRef: {service: %[1]s-stable, port: 80}}}`

// scaledObjectRollout returns Rollout n with an HTTPScaledObject.
func scaledObjectRollout(n int) *v1alpha1.Rollout {
	return rollout(n, httpso.Type, fmt.Sprintf(`{"httpScaledObjectName":"web-%d"}`, n))
}

// scaledObjectCanary returns these Rollouts in a canary, at the first or second of two steps, which set a header and a
// mirror route.
func scaledObjectCanary(index int32) func(n int) *v1alpha1.Rollout {
	return func(n int) *v1alpha1.Rollout {
		rollout := scaledObjectRollout(n)
		rollout.Annotations = map[string]string{"rollout.argoproj.io/revision": "2"}
		rollout.Status.StableRS, rollout.Status.CurrentPodHash, rollout.Status.CurrentStepIndex = "old", "new", &index
		rollout.Spec.Strategy.Canary.Steps = []v1alpha1.CanaryStep{
			{SetHeaderRoute: headerRoute()},
			{SetMirrorRoute: mirrorRoute()},
		}
		return rollout
	}
}

// report writes a report that one proxy has ACKed a weight of an HTTPScaledObject, 0 for no annotation, with the Pods
// of the stable Service. It also renews the Lease of the interceptor.
func report(ctx context.Context, weight uint32, stableHashes ...string) func(n int) error {
	return func(n int) error {
		text := ""
		if weight > 0 {
			canary := scaledObjectRollout(n).Spec.Strategy.Canary
			text = split.Format([]split.Backend{
				{Service: canary.StableService, Weight: 100 - weight}, {Service: canary.CanaryService, Weight: weight},
			})
		}
		data := httpv1alpha1.DataPlaneStatus{
			AnnotationHash: split.Hash(text, ""), Proxies: httpv1alpha1.ProxyCounts{Ready: 1, Acked: 1},
			Effective:    true,
			StableHashes: stableHashes, ReportedBy: "test",
		}
		return errors.Join(renewLease(ctx), apiserver.Patch(ctx, shared.admin,
			fmt.Sprintf("/apis/http.keda.sh/v1alpha1/namespaces/%s/httpscaledobjects/web-%d/status", namespace, n),
			"test",
			map[string]any{"status": map[string]any{"dataPlane": data}}))
	}
}

// renewLease renews the interceptors' Lease.
func renewLease(ctx context.Context) error {
	return apiserver.Apply(ctx, shared.admin, httpv1alpha1.DefaultInterceptorNamespace, fmt.Sprintf(
		`{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: %s}, spec: {holderIdentity: test, renewTime: %q}}`,
		httpv1alpha1.DefaultInterceptorLease, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00")))
}

func TestRequestsForScaledObjects(t *testing.T) {
	began, machine, ctx := time.Now(), stall.Watch(t), t.Context()
	for n := range rollouts {
		shared.apply(t, fmt.Sprintf(scaledObject, fmt.Sprint("web-", n)))
	}
	c := calls{start(t, "rollouts-plugin-kedify", apiserver.RolloutsToken, getLease), scaledObjectRollout}
	header, mirror := calls{c.plugin, scaledObjectCanary(0)}, calls{c.plugin, scaledObjectCanary(1)}
	c.awaitWatch(t, c.setWeight(0))
	at20 := c.atWeight(20)
	renew := func(int) error { return renewLease(ctx) }
	c.run(t,
		step{name: "SetWeight, another weight", call: c.setWeight(20), want: requests{patchObject: 1}},
		step{name: "SetWeight, the same weight", call: at20.setWeight(20)},
		step{name: "UpdateHash, in a canary", call: c.updateHash("new", "old")},
		step{name: "RemoveManagedRoutes", call: c.removeManagedRoutes},
		step{name: "VerifyWeight, nothing reported", before: renew, call: at20.expectUnverified(20)},
		step{name: "VerifyWeight", before: report(ctx, 20), call: at20.verify(ctx, 20)},
		// These results are never based on a watch: the end of a step, an unverified weight, which costs the controller
		// 10 s, and the full weight, after which the old Pods are removed.
		step{
			name: "VerifyWeight, in the first reconcile of a step", call: c.verify(ctx, 20),
			want: requests{getObject: 1},
		},
		step{name: "VerifyWeight, another weight", call: c.expectUnverified(30), want: requests{getObject: 1}},
		step{name: "SetWeight, full", call: c.setWeight(100), want: requests{patchObject: 1}},
		step{
			name: "VerifyWeight, full", before: report(ctx, 100), call: c.verify(ctx, 100),
			want: requests{getObject: 1},
		},
		step{name: "UpdateHash, a promotion", call: c.updateHash("new", "new"), want: requests{getEndpoints: 2}},
		step{
			name:   "VerifyWeight, full, the stable Service has the new Pods",
			before: report(ctx, 100, "new"), call: c.verify(ctx, 100), want: requests{getObject: 1},
		},
		step{name: "UpdateHash, a promotion that is reported", call: c.updateHash("new", "new")},
		step{name: "SetWeight, none", call: c.setWeight(0), want: requests{patchObject: 1}},
		step{name: "SetHeaderRoute", call: header.setHeaderRoute, want: requests{patchObject: 1}},
		step{name: "SetHeaderRoute, the same", call: header.setHeaderRoute},
		step{name: "SetMirrorRoute", call: mirror.setMirrorRoute, want: requests{patchObject: 1}},
		step{name: "SetWeight, with managed routes", call: mirror.setWeight(0)},
		step{
			name: "RemoveManagedRoutes, of a canary", call: mirror.removeManagedRoutes,
			want: requests{patchObject: 1},
		},
		step{name: "SetWeight, after the canary", call: mirror.setWeight(0), want: requests{patchObject: 1}},
		step{name: "an idle resync", before: report(ctx, 0), call: c.reconcile(ctx)},
	)
	checkLeaseReads(t, c.plugin, began, machine)

	blind := calls{
		start(t, "rollouts-plugin-kedify", apiserver.UnprivilegedToken, getLease, listObjects),
		scaledObjectRollout,
	}
	blind.run(t, step{
		name: "an idle resync without a watch", before: renew, call: blind.reconcile(ctx), want: requests{getObject: 3},
	})
	if blind.excluded[listObjects] == 0 {
		t.Error("the plugin without permission to watch has not tried to")
	}
}

// checkLeaseReads fails unless the calls since a time have shared the reads of the Lease, and read it again only when a
// renewal was due. A response after more than a second counts as a failure, and the next call reads again. So a stall
// of the API server or the machine explains a short pause.
func checkLeaseReads(t *testing.T, p *plugin, since time.Time, machine *stall.Detector) {
	t.Helper()
	reads, err := shared.audit.RequestsOf(p.account)
	if err != nil {
		t.Fatal(err)
	}
	reads = slices.DeleteFunc(reads, func(event apiserver.AuditEvent) bool {
		return event.Verb+" "+event.ObjectRef.Resource != getLease || event.RequestReceivedTimestamp.Before(since)
	})
	if len(reads) == 0 {
		t.Error("the Lease was not read")
	}
	for i := 1; i < len(reads); i++ {
		last, at := reads[i-1].RequestReceivedTimestamp, reads[i].RequestReceivedTimestamp
		stood := max(machine.Largest(last, at), reads[i-1].StageTimestamp.Sub(last))
		if pause := at.Sub(last); pause < httpv1alpha1.LeaseRenewInterval && stood <= stall.Limit {
			t.Errorf("the Lease was read again after %v, want at least %v", pause, httpv1alpha1.LeaseRenewInterval)
		}
	}
}
