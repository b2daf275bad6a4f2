package agent_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/process"
)

const (
	// manyNamespaces have manyIngresses each, for an HTTPScaledObject each, and an HTTPRoute for the first of these.
	manyNamespaces, manyIngresses = 50, 10
	// mostMemory is how much memory the agent may have by then, in MB.
	mostMemory = 90
)

// crowd are the objects of one namespace.
func crowd(namespace string) []string {
	all := []string{
		`{apiVersion: v1, kind: Namespace, metadata: {name: ` + namespace + `}}`,
		`{apiVersion: v1, kind: Service, metadata: {name: kedify-proxy}, spec: {ports: [{name: http, port: 8080}]}}`,
		`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: proxies, labels: {kubernetes.io/service-name: kedify-proxy}},
			addressType: IPv4, ports: [{name: http, port: 8080}], endpoints: [{addresses: [10.0.0.1]}]}`,
		`{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: shop-0}, spec: {hostnames: [shop-0.test],
			rules: [{backendRefs: [{name: shop-0, port: 80}]}]}}`,
	}
	for i := range manyIngresses {
		name := fmt.Sprint("shop-", i)
		all = append(all,
			`{apiVersion: http.keda.sh/v1alpha1, kind: HTTPScaledObject, metadata: {name: `+name+`, annotations: {
				http.kedify.io/traffic-autowire: "ingress,httproute"}}, spec: {hosts: [`+name+`.test], scaleTargetRef: {service: `+name+`, port: 80}}}`,
			`{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: `+name+`}, spec: {rules: [{host: `+name+`.test, http: {paths: [
				{path: /, pathType: Prefix, backend: {service: {name: `+name+`, port: {number: 80}}}}]}}]}}`)
	}
	return all
}

// fill creates many namespaces whose proxies have acknowledged all objects.
func fill(t *testing.T) {
	t.Helper()
	status := map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
		"type": "Programmed", "status": "True", "reason": "Programmed", "message": "",
		"lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
	}}}}
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(8)
	for n := range manyNamespaces {
		name := fmt.Sprint("many-", n)
		group.Go(func() error {
			err := apiserver.Apply(ctx, shared.admin, name, crowd(name)...)
			for i := range manyIngresses {
				path := httpScaledObject(name, fmt.Sprint("shop-", i)) + "/status"
				err = errors.Join(err, apiserver.Patch(ctx, shared.admin, path, "interceptor", status))
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// periodic is the key of the requests that the agent repeats, whatever happens: it looks every 10 s at certificates, and
// for kinds that are not installed. mostPeriodic is the maximum number of them in one such look.
const (
	periodic     = "periodic"
	mostPeriodic = 8
)

// requests counts what the agent has asked so far, by verb and resource, and all together by the empty key. Periodic
// requests have a key of their own.
func requests(t *testing.T) (counts map[string]int, renewals int) {
	t.Helper()
	events, err := shared.audit.RequestsOf(account)
	if err != nil {
		t.Fatal(err)
	}
	counts = map[string]int{}
	for _, event := range events {
		ref := event.ObjectRef
		switch ref.Resource {
		case "leases":
			renewals++
		case "secrets", "mutatingwebhookconfigurations", "": // Discovery has no resource.
			counts[periodic]++
		case "configmaps":
			if event.Verb == "get" {
				counts[periodic]++
				continue
			}
			fallthrough
		default:
			counts[event.Verb+" "+ref.Resource+"/"+ref.Subresource]++
			counts[""]++
		}
	}
	return counts, renewals
}

// TestManyIngresses wires 500 Ingresses in 50 namespaces, and 50 HTTPRoutes. It counts the requests to the API
// server, and checks that none follows afterwards.
//
//nolint:paralleltest // it replaces the shared cluster
func TestManyIngresses(t *testing.T) {
	folder := emptyCluster(t)
	fill(t)
	began := time.Now()
	agent, _, err := shared.start(t.Context(), folder, "--install-proxies=false") // there are some
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Kill() })
	const ingresses = manyNamespaces * manyIngresses
	wants := []struct {
		what        string
		least, most int
	}{
		{"patch ingresses/", ingresses, ingresses},
		{"patch httproutes/", manyNamespaces, manyNamespaces},
		// What the watch does not show yet is written again: mostly the last one of a namespace.
		{"patch httpscaledobjects/status", ingresses, ingresses + 2*manyNamespaces},
		// One Event is about the leader election.
		{"create events/", ingresses + manyNamespaces, ingresses + manyNamespaces + 1},
	}
	for n := range manyNamespaces {
		awaitWiring(t, fmt.Sprint("many-", n), fmt.Sprint("shop-", manyIngresses-1), httpv1alpha1.ReasonWired)
	}
	var asked map[string]int
	await.True(t, "all are wired", func() bool {
		asked, _ = requests(t)
		for _, want := range wants {
			if asked[want.what] < want.least {
				return false
			}
		}
		return true
	})
	t.Logf("%d Ingresses and %d HTTPRoutes were wired %.1f s after the start of the agent", ingresses, manyNamespaces,
		time.Since(began).Seconds())
	rested := awaitRest(t, agent.PID())
	for _, want := range wants {
		t.Logf("%-32s %4d, at most %d", want.what, rested[want.what], want.most)
		if rested[want.what] > want.most {
			t.Errorf("%d of %s, at most %d are allowed", rested[want.what], want.what, want.most)
		}
	}
}

// awaitRest checks that the agent sends no more requests and stays within its memory limit. It returns the
// requests.
func awaitRest(t *testing.T, pid int) map[string]int {
	t.Helper()
	renew := func() (asked map[string]int) { // 2 s after the last time
		_, renewed := requests(t)
		await.True(t, "the Lease is renewed", func() bool {
			var now int
			asked, now = requests(t)
			return now > renewed
		})
		return asked
	}
	before, after := map[string]int(nil), renew()
	await.True(t, "nothing is asked from one renewal to the next", func() bool {
		before, after = after, renew()
		return after[""] == before[""]
	})
	before, after = after, renew()
	repeated := after[periodic] - before[periodic]
	t.Logf("at rest: %d requests from one renewal of the Lease to the next, at most 0; %d periodic ones, at most %d",
		after[""]-before[""], repeated, mostPeriodic)
	if after[""] != before[""] || repeated > mostPeriodic {
		t.Errorf("the agent asks the API server though nothing happens: %v, then %v", before, after)
	}
	folder, err := process.Find(pid)
	if err != nil {
		t.Fatal(err)
	}
	memory, err := folder.Memory()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("memory of the agent: %.0f MB, at most %d", memory.Resident, mostMemory)
	if memory.Resident > mostMemory {
		t.Errorf("the agent has %.0f MB, at most %d are allowed", memory.Resident, mostMemory)
	}
	return after
}
