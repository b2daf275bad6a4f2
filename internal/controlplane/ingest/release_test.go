package ingest

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/certificates"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// keyIn returns the key of an object of poisoned.set.
func keyIn(name string) model.Key { return model.Key{Namespace: "ns-" + name, Name: name} }

// TestPanicOfAnUpdate has one object of a batch that panics after its publication, when its state is updated. The others
// are updated, and it is tried again with its next version.
func TestPanicOfAnUpdate(t *testing.T) {
	t.Parallel()
	s := newPoisoned(t)
	s.set("a", "a.test", good())
	s.set("b", "b.test", good())
	s.expect("at first", map[string]string{"a": "a.test", "b": "b.test"})
	keys := map[model.Key]struct{}{keyIn("a"): {}, keyIn("b"): {}}
	changed := s.updateObjects(t.Context(), keys, nil, s.resolver,
		func(key model.Key, _ *trackedObject) (model.Config, error) {
			if key.Name == "a" {
				panic("updating a")
			}
			return s.resolver.Published(key), nil
		})
	if diff := cmp.Diff([]model.Key{keyIn("a")}, slices.Collect(maps.Keys(s.quarantine.objects))); diff != "" {
		t.Errorf("objects in quarantine (-want +got):\n%s", diff)
	}
	if b := changed[keyIn("b")]; !b.Outcome.Served || b.Outcome.Failure != "" {
		t.Errorf("the other object: %+v", b.Outcome)
	}
	a := changed[keyIn("a")]
	if !strings.Contains(a.Outcome.Failure, "updating a") || a.ScaledObject == nil {
		t.Errorf("the object that panics: %+v", a)
	}
	s.set("a", "c.test", good())
	s.expect("with another version", map[string]string{"a": "c.test", "b": "b.test"})
}

// TestRelease changes what an object in quarantine may fail because of. It is tried again, unless the change is one of
// another namespace.
func TestRelease(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*poisoned) error
		isTry  bool
	}{
		"its Service": {func(s *poisoned) error {
			service := kit.NewService("ns-bad", "bad")
			service.Spec.Ports[0].Name = "other"
			return s.services[0].Add(service)
		}, true},
		"another Service of its namespace": {func(s *poisoned) error {
			return s.services[0].Add(kit.NewService("ns-bad", "canary"))
		}, true},
		"a Service of another namespace": {func(s *poisoned) error {
			return s.services[0].Add(kit.NewService("ns-other", "canary"))
		}, false},
	} {
		s := newPoisoned(t)
		s.set("bad", "poison.test", good())
		s.expect("at first: "+name, map[string]string{}, "bad")
		tries := strings.Count(s.log.String(), "poisonous host")
		s.quarantine.logged[keyIn("bad")] = loggedFailure{} // a failure again is logged again
		if err := c.change(s); err != nil {
			t.Fatal(err)
		}
		s.expect("afterwards: "+name, map[string]string{}, "bad")
		if again := strings.Count(s.log.String(), "poisonous host") > tries; again != c.isTry {
			t.Errorf("%s changed: tried again: %v, want %v", name, again, c.isTry)
		}
	}
}

// TestReleaseBySecret changes Secrets of the namespace of an object in quarantine, and of another one.
func TestReleaseBySecret(t *testing.T) {
	t.Parallel()
	for namespace, isReleased := range map[string]bool{"ns-bad": true, "ns-other": false} {
		q := newQuarantine()
		q.add(keyIn("bad"), errors.New("a bug"))
		q.release(changes{secrets: map[model.Key]*certificates.Secret{{Namespace: namespace, Name: "tls"}: nil}},
			func(model.Key) types.UID { return "" })
		if q.isEmpty() != isReleased {
			t.Errorf("a Secret of namespace %s: released: %v, want %v", namespace, q.isEmpty(), isReleased)
		}
	}
}
