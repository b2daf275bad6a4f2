package status_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

const (
	// busyObjects is the number of objects of fleet busy, whose statuses all change when one of its proxies does.
	busyObjects = 10_000
	// workers is how many objects are written in parallel.
	workers = 16
)

// tenants is a fixture with the objects of fleet busy, and those of others.
type tenants struct {
	*fixture

	busy map[model.Key]ingest.Object
}

// newTenants returns tenants. change changes each object of fleet busy, nil for nothing.
func newTenants(t *testing.T, change func(*httpv1alpha1.HTTPScaledObject)) *tenants {
	t.Helper()
	s := &tenants{newFixture(t), map[model.Key]ingest.Object{}}
	for i := range busyObjects {
		key, object := s.object("busy", fmt.Sprint("busy-", i), change)
		s.busy[key] = object
	}
	return s
}

// object stores an object of a fleet, which is also its namespace.
func (s *tenants) object(
	fleet, name string, change func(*httpv1alpha1.HTTPScaledObject),
) (model.Key, ingest.Object) {
	object := shop()
	object.Namespace, object.Name, object.UID = fleet, name, types.UID(name)
	if change != nil {
		change(object)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[name] = object
	return model.Key{Namespace: fleet, Name: name},
		ingest.Object{ScaledObject: object, Fleet: model.Fleet(fleet), Outcome: ingest.Outcome{Served: true}}
}

// observe passes objects to the Reporter, while the proxy of fleet busy is Ready or not.
func (s *tenants) observe(objects map[model.Key]ingest.Object, isReady bool) {
	flapping := readyProxy("a", "10.0.0.1")
	flapping.IsReady = isReady
	s.reporter.Observe(ingest.Pass{Objects: objects, Proxies: map[model.Fleet][]model.Proxy{
		"busy": {flapping}, "calm": {readyProxy("b", "10.0.0.2")},
	}})
	time.Sleep(10 * time.Millisecond)
	synctest.Wait()
}

// written returns the names of the written objects, in order.
func (s *tenants) written() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.writes {
		if kind, rest, _ := strings.Cut(line, " "); kind == "status" {
			name, _, _ := strings.Cut(rest, " ")
			names = append(names, name)
		}
	}
	return names
}

// splits makes an object one in a canary.
func splits(object *httpv1alpha1.HTTPScaledObject) {
	object.Annotations = map[string]string{httpv1alpha1.AnnotationWeightedBackends: "at 20"}
}

// slowServer answers writes of fleet busy only once release is closed. A write takes a millisecond of the bubble's time,
// so each worker has written one object before any worker writes the next one.
type slowServer struct {
	*server

	release <-chan struct{}
}

// ApplyStatus implements status.Client.
func (s slowServer) ApplyStatus(
	ctx context.Context, object *httpv1alpha1.HTTPScaledObject, is httpv1alpha1.HTTPScaledObjectStatus,
) error {
	if object.Namespace == "busy" {
		<-s.release
	}
	time.Sleep(time.Millisecond)
	return s.server.ApplyStatus(ctx, object, is)
}

// slowDown replaces the server of the Reporter by a slowServer, and returns its channel release.
func (s *tenants) slowDown(t *testing.T) chan<- struct{} {
	t.Helper()
	release := make(chan struct{})
	s.reporter = newReporter(t, slowServer{s.server, release}, s.proxies, "interceptor-0")
	return release
}

// TestBusyFleetDelaysNoCanary has the canaries of one fleet wait for an API server that is slow for all of them. Then a
// weight of another fleet is set. Its report is among the first ones.
func TestBusyFleetDelaysNoCanary(t *testing.T) {
	for name, isCanary := range map[string]func(*httpv1alpha1.HTTPScaledObject){
		"of objects without a canary": nil, "of canaries": splits,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTenants(t, isCanary)
				release := s.slowDown(t)
				defer s.lead(t)()
				s.observe(s.busy, true)
				key, canary := s.object("calm", "canary", splits)
				s.observe(map[model.Key]ingest.Object{key: canary}, false)
				time.Sleep(time.Second) // Its report waits for no ACK any more.
				synctest.Wait()
				close(release)
				time.Sleep(time.Minute)
				names := s.written()
				if at := slices.Index(names, "canary"); at < 0 || at > 2*workers {
					t.Errorf("the canary is number %d of %d writes, want at most %d", at, len(names), 2*workers)
				}
			})
		})
	}
}

// TestHangingWritesDelayNoOtherFleet has an API server that answers no write to a fleet, such as because of an admission
// webhook. The objects of another fleet are written meanwhile, and those of the first one afterwards.
func TestHangingWritesDelayNoOtherFleet(t *testing.T) {
	for name, isCanary := range map[string]func(*httpv1alpha1.HTTPScaledObject){
		"of objects without a canary": nil, "of canaries": splits,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTenants(t, isCanary)
				release := s.slowDown(t)
				defer s.lead(t)()
				s.observe(s.busy, true)
				time.Sleep(time.Second)
				calm := map[model.Key]ingest.Object{}
				for i, change := range []func(*httpv1alpha1.HTTPScaledObject){nil, splits} {
					key, object := s.object("calm", fmt.Sprint("calm-", i), change)
					calm[key] = object
				}
				s.observe(calm, true)
				time.Sleep(time.Second)
				names := s.written()
				if slices.Sort(names); !slices.Equal(names, []string{"calm-0", "calm-1"}) {
					t.Errorf("%q were written while the other fleet hangs", names)
				}
				close(release)
				time.Sleep(time.Minute)
				if count := len(s.written()); count != busyObjects+2 {
					t.Errorf("%d objects were written, want %d", count, busyObjects+2)
				}
			})
		})
	}
}

// TestObjectsThatNeedNoWriteDelayNoOthers deletes most objects of a fleet whose writes hang. The remaining ones, which
// wait behind deleted ones, are written nevertheless.
func TestObjectsThatNeedNoWriteDelayNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTenants(t, splits)
		release := s.slowDown(t)
		defer s.lead(t)()
		s.observe(s.busy, true)
		time.Sleep(time.Second)
		var remaining []string
		deleted := map[model.Key]ingest.Object{}
		for key := range s.busy {
			if len(remaining) < 2*workers {
				remaining = append(remaining, key.Name)
			} else {
				deleted[key] = ingest.Object{}
			}
		}
		s.observe(deleted, true)
		close(release)
		time.Sleep(time.Minute)
		names := s.written()
		for _, name := range remaining {
			if !slices.Contains(names, name) {
				t.Errorf("%s was not written", name)
			}
		}
	})
}

// TestBusyFleetDelaysNoOtherFleet changes the statuses of all objects of one fleet, and then that of an object of
// another one. It is written next, not after all others.
func TestBusyFleetDelaysNoOtherFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTenants(t, nil)
		close(s.slowDown(t))
		defer s.lead(t)()
		s.observe(s.busy, true)
		time.Sleep(time.Second)
		before := len(s.written())
		key, calm := s.object("calm", "calm", nil)
		calm.Outcome.Problems = []model.Problem{{On: key, Reason: "Invalid", Message: "invalid"}} // waits for no ACK
		s.observe(map[model.Key]ingest.Object{key: calm}, true)
		time.Sleep(time.Minute)
		names := s.written()
		if at := slices.Index(names, "calm"); at < before || at > before+workers {
			t.Errorf("the other fleet is number %d of %d writes, want %d to %d", at, len(names), before, before+workers)
		}
		if count := len(names); count != busyObjects+1 {
			t.Errorf("%d writes, want one for each of %d objects", count, busyObjects+1)
		}
	})
}

// TestWaitingChangesAreOneWrite changes two objects again and again while they wait for their turn behind all others of
// their fleet. One of them has its status again in the end, and needs no write.
func TestWaitingChangesAreOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTenants(t, nil)
		defer s.lead(t)()
		changing, object := s.object("busy", "changing", nil)
		reverting, other := s.object("busy", "reverting", nil)
		s.observe(map[model.Key]ingest.Object{changing: object, reverting: other}, true)
		time.Sleep(time.Second)
		s.observe(s.busy, true)
		time.Sleep(time.Second) // They wait for no ACK any more.
		s.mu.Lock()
		s.writes = nil
		s.mu.Unlock()
		for i := range 50 {
			object.Outcome.Problems = []model.Problem{{On: changing, Reason: fmt.Sprint("Reason", i), Message: "invalid"}}
			other.Outcome.Problems = nil
			if i%2 == 0 {
				other.Outcome.Problems = []model.Problem{{On: reverting, Reason: "Invalid", Message: "invalid"}}
			}
			s.observe(map[model.Key]ingest.Object{changing: object, reverting: other}, true)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		s.mu.Lock()
		defer s.mu.Unlock()
		var writes []string
		for _, line := range s.writes {
			if strings.HasPrefix(line, "status changing") || strings.HasPrefix(line, "status reverting") {
				writes = append(writes, line)
			}
		}
		if want := []string{"status changing Reason49"}; !slices.Equal(writes, want) {
			t.Errorf("writes %q, want %q", writes, want)
		}
	})
}
