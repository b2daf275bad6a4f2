package status_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/certificates"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// TestEmitEvent expects one Event per epoch for each known object and reason, also from a replica that isn't the
// leader. Two replicas give the Event of one epoch the same name.
func TestEmitEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &collector{server: server{objects: map[string]*httpv1alpha1.HTTPScaledObject{"shop": shop()}}}
		stages := []*fixture{
			{
				server: &client.server, reporter: newReporter(t, client, newProxies(), "a"),
				listed: []*httpv1alpha1.HTTPScaledObject{shop()},
			},
			{
				server: &client.server, reporter: newReporterWith(t, client, newProxies(), "b", never),
				listed: []*httpv1alpha1.HTTPScaledObject{shop()},
			},
		}
		for _, s := range stages {
			defer s.lead(t)()
			s.report()
		}
		time.Sleep(time.Minute)
		client.mu.Lock()
		client.events = nil
		client.mu.Unlock()
		cold := status.RequestEvent{Type: corev1.EventTypeNormal, Reason: "ColdStart", Note: "A request waits."}
		full := status.RequestEvent{Type: corev1.EventTypeWarning, Reason: "QueueLimitReached", Note: "No more may wait."}
		unknown := shopKey()
		unknown.Name = "unknown"
		for range 2 {
			for range 100 {
				stages[0].reporter.EmitEvent(shopKey(), cold)
				stages[1].reporter.EmitEvent(shopKey(), cold)
				stages[0].reporter.EmitEvent(shopKey(), full)
				stages[0].reporter.EmitEvent(unknown, full)
			}
			time.Sleep(5 * time.Minute)
			synctest.Wait()
		}
		client.mu.Lock()
		defer client.mu.Unlock()
		count, names := map[string]int{}, map[string]struct{}{}
		for _, event := range client.events {
			count[event.Type+" "+event.Reason+" "+event.Note+" "+event.Regarding.Name+" "+event.Action]++
			names[event.Name] = struct{}{}
		}
		want := map[string]int{
			"Normal ColdStart A request waits. shop Hold":           4,
			"Warning QueueLimitReached No more may wait. shop Hold": 2,
		}
		if diff := cmp.Diff(want, count); diff != "" || len(names) != 4 {
			t.Errorf("%d names\n%s", len(names), diff)
		}
	})
}

// blockedCollector is a collector whose Events wait until gate is closed.
type blockedCollector struct {
	collector

	gate chan struct{}
}

// CreateEvent implements status.Client.
func (c *blockedCollector) CreateEvent(ctx context.Context, event *eventsv1.Event) error {
	<-c.gate
	return c.collector.CreateEvent(ctx, event)
}

// TestDroppedEventIsEmittedAgain emits more Events than can wait while the API server does not answer. Those that were
// dropped are emitted at their next occurrence, in the same epoch, and so is one about an object that is new.
func TestDroppedEventIsEmittedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &blockedCollector{gate: make(chan struct{})}
		client.objects = map[string]*httpv1alpha1.HTTPScaledObject{"shop": shop()}
		late := shop()
		late.Name, late.UID = "late", "late"
		lateKey := shopKey()
		lateKey.Name = "late"
		s := &fixture{
			server: &client.server, reporter: newReporterWith(t, client, newProxies(), "a", never),
			listed: []*httpv1alpha1.HTTPScaledObject{shop()},
		}
		defer s.lead(t)()
		s.report()
		synctest.Wait()
		const events = 1000
		emit := func() {
			for i := range events {
				s.reporter.EmitEvent(shopKey(), status.RequestEvent{
					Type: corev1.EventTypeWarning, Reason: fmt.Sprint("Reason", i), Note: "A request was rejected.",
				})
			}
			s.reporter.EmitEvent(lateKey, status.RequestEvent{
				Type: corev1.EventTypeNormal, Reason: "ColdStart", Note: "A request waits.",
			})
			synctest.Wait()
		}
		emit()
		close(client.gate)
		s.listed = append(s.listed, late)
		s.report()
		synctest.Wait()
		for range 10 {
			emit()
		}
		client.mu.Lock()
		defer client.mu.Unlock()
		names := map[string]struct{}{}
		for _, event := range client.events {
			names[event.Name] = struct{}{}
		}
		if len(names) != events+1 || len(client.events) != events+1 {
			t.Errorf("%d Events of %d names, want %d", len(client.events), len(names), events+1)
		}
	})
}

// TestPendingSecretIsNoEvent: a Secret that has not been read yet is no problem of the user, who gets an Event only about
// one that is invalid, and about its correction.
func TestPendingSecretIsNoEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &collector{server: server{objects: map[string]*httpv1alpha1.HTTPScaledObject{"shop": shop()}}}
		s := &fixture{
			server: &client.server, reporter: newReporter(t, client, newProxies(), "a"),
			listed: []*httpv1alpha1.HTTPScaledObject{shop()},
		}
		defer s.lead(t)()
		for _, state := range []certificates.State{
			{Secret: "tls", IsPending: true},
			{Secret: "tls", Problems: []model.Problem{problem(httpv1alpha1.ReasonSecretNotFound, "create it")}},
			{Secret: "tls"},
			{Secret: "tls", IsPending: true},
		} {
			objects := s.objectsWith(model.Config{})
			object := objects[shopKey()]
			object.Outcome.TLS = &state
			objects[shopKey()] = object
			s.reporter.Observe(ingest.Pass{Objects: objects})
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		client.mu.Lock()
		defer client.mu.Unlock()
		var got []string
		for _, event := range client.events {
			got = append(got, event.Type+" "+event.Reason)
		}
		if diff := cmp.Diff([]string{"Warning SecretNotFound", "Normal TLSReady"}, got); diff != "" {
			t.Errorf("Events (-want +got):\n%s", diff)
		}
	})
}

// TestFlappingConditionIsLimited: a problem that comes and goes every 5 seconds for an hour is at most 25 Events at once,
// and one per minute then.
func TestFlappingConditionIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &collector{server: server{objects: map[string]*httpv1alpha1.HTTPScaledObject{"shop": shop()}}}
		s := &fixture{
			server: &client.server, reporter: newReporter(t, client, newProxies(), "a"),
			listed: []*httpv1alpha1.HTTPScaledObject{shop()},
		}
		defer s.lead(t)()
		began := time.Now()
		for time.Since(began) < time.Hour {
			s.report(problem(httpv1alpha1.ReasonServiceNotFound, "create it"))
			time.Sleep(5 * time.Second)
			s.report()
			time.Sleep(5 * time.Second)
		}
		client.mu.Lock()
		defer client.mu.Unlock()
		if count := len(client.events); count < 80 || count > 86 {
			t.Errorf("%d Events, want 25 and one for each minute", count)
		}
	})
}

// TestInvalidFleetEvent has a Service of proxies with an invalid setting. Two replicas give the Event the same name.
func TestInvalidFleetEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &collector{server: server{objects: map[string]*httpv1alpha1.HTTPScaledObject{"shop": shop()}}}
		invalid := resolve.NewService(&corev1.Service{ObjectMeta: metav1.ObjectMeta{
			Namespace: "apps", Name: "kedify-proxy", UID: "7",
			Annotations: map[string]string{"http.kedify.io/proxy-authentication": "off"},
		}})
		for _, replica := range []string{"a", "b"} {
			reporter := newReporterWith(t, client, newProxies(), replica, never)
			defer (&fixture{server: &client.server, reporter: reporter}).lead(t)()
			reporter.Observe(ingest.Pass{InvalidFleets: []*resolve.Service{invalid}})
		}
		synctest.Wait()
		client.mu.Lock()
		defer client.mu.Unlock()
		if len(client.events) != 2 || client.events[0].Name != client.events[1].Name {
			t.Fatalf("%d Events", len(client.events))
		}
		event := client.events[0]
		if event.Reason != "InvalidProxyAuthentication" || event.Regarding.Kind != "Service" || event.Regarding.UID != "7" ||
			!strings.Contains(event.Note, `annotation http.kedify.io/proxy-authentication: "off" is not a mode`) {
			t.Errorf("%+v", event)
		}
	})
}
