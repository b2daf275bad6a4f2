package status_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// canary publishes shop at a weight, in addition to other, and observes it with two Ready proxies.
func (s *fixture) canary(weight uint32) {
	config := splitAt(map[string]uint32{"shop": weight, "other": 0})
	s.proxies.publish(config)
	s.mu.Lock()
	changed := s.objects["shop"].DeepCopy()
	changed.Annotations = map[string]string{httpv1alpha1.AnnotationWeightedBackends: fmt.Sprint("at ", weight)}
	changed.ResourceVersion = fmt.Sprint("at ", weight)
	s.objects["shop"] = changed
	s.mu.Unlock()
	s.watch()
	s.reporter.Observe(ingest.Pass{
		Objects:  s.objectsWith(config),
		Proxies:  map[model.Fleet][]model.Proxy{"apps": {readyProxy("a", "10.0.0.1"), readyProxy("b", "10.0.0.2")}},
		Replicas: s.replicas,
	})
}

// reported returns the report of shop, as ready/acked and effective, and the number of its writes since the last call.
func (s *fixture) reported() (counts string, writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	report := s.objects["shop"].Status.DataPlane
	for _, line := range s.writes {
		if line == "status shop Accepted" {
			writes++
		}
	}
	s.writes = nil
	if report == nil {
		return "none", writes
	}
	return fmt.Sprintf("%d/%d %v", report.Proxies.Ready, report.Proxies.Acked, report.Effective), writes
}

// TestReportsFollowACKs runs a canary. With synctest time, the durations are exact.
func TestReportsFollowACKs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		defer s.lead(t)()
		both := func() { s.proxies.confirm("10.0.0.1:1"); s.proxies.confirm("10.0.0.2:1") }
		const ms = time.Millisecond
		steps := []struct {
			name   string
			do     func()
			after  time.Duration
			want   string
			writes int
		}{
			{"a weight is published", func() { s.canary(20) }, 50 * ms, "none", 0},
			{"both proxies confirm it", both, 30 * ms, "2/2 true", 1},
			{"the next weight", func() { s.canary(50) }, 90 * ms, "2/2 true", 0},
			{"no proxy answers for some time", func() {}, 60 * ms, "2/0 false", 1},
			{"one proxy answers", func() { s.proxies.confirm("10.0.0.1:1") }, 50 * ms, "2/0 false", 0},
			{"and then the other", func() { s.proxies.confirm("10.0.0.2:1") }, 30 * ms, "2/2 true", 1},
			{
				"ACKs in short succession are one write", func() { s.canary(80); both() }, 200 * ms,
				"2/2 true", 1,
			},
			{"the scope is rejected for a moment", func() {
				s.proxies.setAck("10.0.0.1:1", resourcev3.ScopedRouteType, "shop.test", s.proxies.nack("shop.test"))
				time.Sleep(50 * ms)
				both()
			}, 200 * ms, "2/2 true", 0},
			{"and permanently", func() {
				s.proxies.setAck("10.0.0.1:1", resourcev3.ScopedRouteType, "shop.test", s.proxies.nack("shop.test"))
			}, 200 * ms, "2/1 false", 1},
		}
		for _, step := range steps {
			step.do()
			time.Sleep(step.after)
			got, writes := s.reported()
			if got != step.want || writes != step.writes {
				t.Errorf("%s: the report is %q after %d writes, want %q after %d", step.name, got, writes, step.want,
					step.writes)
			}
		}
	})
}

func TestWritesToOneObjectAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		defer s.lead(t)()
		s.canary(20)
		writes := 0
		for range 300 { // one minute
			s.proxies.confirm("10.0.0.1:1")
			s.proxies.confirm("10.0.0.2:1")
			time.Sleep(20 * time.Millisecond)
			s.proxies.setAck("10.0.0.2:1", resourcev3.ScopedRouteType, "shop.test", status.ResourceAck{})
			time.Sleep(180 * time.Millisecond)
			_, more := s.reported()
			writes += more
		}
		if writes < 30 || writes > 65 {
			t.Errorf("%d writes in a minute, want about one per second", writes)
		}
	})
}

func TestCanariesAreWrittenFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		for i := range 500 {
			object := shop()
			object.Name, object.UID = fmt.Sprint("calm-", i), types.UID(fmt.Sprint("calm-", i))
			s.objects[object.Name] = object
		}
		s.watch()
		defer s.lead(t)()
		s.canary(20)
		s.proxies.confirm("10.0.0.1:1")
		s.proxies.confirm("10.0.0.2:1")
		time.Sleep(200 * time.Millisecond)
		if got, _ := s.reported(); got != "2/2 true" {
			t.Errorf("after 200 ms the report is %q", got)
		}
		s.canary(50)
		s.proxies.confirm("10.0.0.1:1")
		s.proxies.confirm("10.0.0.2:1")
		time.Sleep(50 * time.Millisecond)
		if got, writes := s.reported(); got != "2/2 true" || writes != 1 {
			t.Errorf("with 500 other objects the report is %q after %d writes", got, writes)
		}
		time.Sleep(3 * time.Second)
		for _, object := range s.list() {
			if object.Status.DataPlane == nil {
				t.Fatalf("%s has no report after 3 s", object.Name)
			}
		}
	})
}

// TestCanaryShortensRetryDelay begins a rollout after the writes of an object have failed for so long that retries are
// rare.
func TestCanaryShortensRetryDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		defer s.lead(t)()
		s.fail = errors.New("the API server is unavailable")
		s.report()
		time.Sleep(129 * time.Second) // The last attempt was a second ago, and the next one is in half a minute.
		s.mu.Lock()
		s.fail = nil
		s.mu.Unlock()
		s.canary(20)
		s.proxies.confirm("10.0.0.1:1")
		s.proxies.confirm("10.0.0.2:1")
		time.Sleep(2100 * time.Millisecond)
		if got, _ := s.reported(); got != "2/2 true" {
			t.Errorf("the report is %q", got)
		}
		if status := s.objects["other"].Status.DataPlane; status != nil {
			t.Error("the object without a canary was written, so the test proves nothing")
		}
	})
}

// TestFlappingProxyDelaysNoOtherObject changes 1,000 statuses each time that a proxy becomes Ready. Most of them don't
// need their write when the proxy is gone a second later.
func TestFlappingProxyDelaysNoOtherObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		for i := range 1000 {
			object := shop()
			object.Name, object.UID = fmt.Sprint("calm-", i), types.UID(fmt.Sprint("calm-", i))
			s.objects[object.Name] = object
		}
		s.watch()
		defer s.lead(t)()
		objects := s.objectsWith(model.Config{})
		proxy := readyProxy("a", "10.0.0.1")
		report := func(more map[model.Key]ingest.Object) {
			all := maps.Clone(objects)
			maps.Copy(all, more)
			s.reporter.Observe(ingest.Pass{Objects: all, Proxies: map[model.Fleet][]model.Proxy{"apps": {proxy}}})
		}
		report(nil)
		time.Sleep(10 * time.Second)
		for range 60 {
			proxy.IsReady = !proxy.IsReady
			report(nil)
			time.Sleep(time.Second)
		}

		late := shop()
		late.Name, late.UID = "late", "late"
		s.mu.Lock()
		s.objects[late.Name], s.writes = late, nil
		s.mu.Unlock()
		wrong := problem("ServiceNotFound", "no Service x")
		wrong.On.Name = late.Name
		report(map[model.Key]ingest.Object{wrong.On: {
			ScaledObject: late, Fleet: "calm", Outcome: ingest.Outcome{Problems: []model.Problem{wrong}},
		}})
		time.Sleep(4 * time.Second)
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.objects[late.Name].Status.Conditions) == 0 {
			t.Errorf("there is no status after 4 s; %d others were written", len(s.writes))
		}
	})
}
