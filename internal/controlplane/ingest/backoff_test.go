package ingest

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// tries returns how often the translation of an object has failed.
func (s *poisoned) tries() int {
	return int(testutil.ToFloat64(s.metrics.failures.WithLabelValues(stageTranslate)))
}

// changeNeighbor changes the endpoint of another Service in the namespace of an object, and runs a pass.
func (s *poisoned) changeNeighbor(name string, version int) {
	s.t.Helper()
	slice := kit.NewEndpointSlice("ns-"+name, "neighbor", fmt.Sprintf("10.1.%d.%d", version/256, version%256))
	if err := s.slices[0].Add(slice); err != nil {
		s.t.Fatal(err)
	}
	s.pass(s.t.Context())
}

// TestFailingObjectIsTriedLessOften has a Service in the namespace of an object in quarantine that changes ten times a
// second. The object is tried again with growing pauses, at least once in maxQuarantinePause, and keeps its last good
// host meanwhile.
func TestFailingObjectIsTriedLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPoisoned(t)
		s.set("bad", "bad.test", good())
		s.set("other", "one.test", good())
		s.expect("at first", map[string]string{"bad": "bad.test", "other": "one.test"})
		s.set("bad", "poison.test", good())
		s.expect("with poison", map[string]string{"bad": "bad.test", "other": "one.test"}, "bad")
		const perSecond = 10
		change := func(seconds int) (tries int) {
			before := s.tries()
			for i := range seconds * perSecond {
				time.Sleep(time.Second / perSecond)
				s.changeNeighbor("bad", i)
			}
			return s.tries() - before
		}
		if tries := change(10); tries < 2 || tries > 5 {
			t.Errorf("%d tries in the first 10 s, want 2 to 5: at once, and after 1, 2 and 4 s", tries)
		}
		change(120)
		if tries := change(180); tries < 2 || tries > 3 {
			t.Errorf("%d tries in 3 minutes, want one a minute", tries)
		}
		s.set("bad", "better.test", good())
		change(60)
		s.expect("after a fix", map[string]string{"bad": "better.test", "other": "one.test"})
	})
}

// TestFailingObjectIsTriedWithoutAnotherChange changes an object in quarantine once, during its pause. It is tried again
// after the pause.
func TestFailingObjectIsTriedWithoutAnotherChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPoisoned(t)
		s.set("other", "one.test", good())
		for version := range 3 {
			s.set("bad", fmt.Sprintf("poison-%d.test", version), good())
			s.expect("with poison", map[string]string{"other": "one.test"}, "bad")
		}
		if next := s.nextTry(); next == nil {
			t.Fatal("no try is due after a change during the pause")
		} else {
			<-next
		}
		tries := s.tries()
		s.set("bad", "better.test", good())
		time.Sleep(minQuarantinePause)
		s.expect("after a fix", map[string]string{"bad": "better.test", "other": "one.test"})
		if again := s.tries(); again != tries {
			t.Errorf("%d further failures", again-tries)
		}
		if s.nextTry() != nil {
			t.Error("a try is due without an object in quarantine")
		}
	})
}

// TestQuarantineCostsNoOtherObject has an object in quarantine. A change of another object is published alone, and one
// of the Service of the object in quarantine reaches the proxies.
func TestQuarantineCostsNoOtherObject(t *testing.T) {
	t.Parallel()
	s := newPoisoned(t)
	s.set("bad", "bad.test", good())
	s.set("other", "one.test", good())
	s.set("third", "third.test", good())
	s.expect("at first", map[string]string{"bad": "bad.test", "other": "one.test", "third": "third.test"})
	s.set("bad", "poison.test", good())
	s.expect("with poison", map[string]string{"bad": "bad.test", "other": "one.test", "third": "third.test"}, "bad")
	s.set("other", "two.test", good())
	s.expect("a change", map[string]string{"bad": "bad.test", "other": "two.test", "third": "third.test"}, "bad")
	s.published()
	s.set("other", "three.test", good())
	s.expect("another change", map[string]string{"bad": "bad.test", "other": "three.test", "third": "third.test"}, "bad")
	if count := s.published(); count != 1 {
		t.Errorf("%d scopes were published for one object, want 1", count)
	}
}

// TestDeletedObjectLeavesTheQuarantine deletes an object during its pause.
func TestDeletedObjectLeavesTheQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPoisoned(t)
		s.set("bad", "bad.test", good())
		s.expect("at first", map[string]string{"bad": "bad.test"})
		for version := range 3 {
			s.set("bad", fmt.Sprintf("poison-%d.test", version), good())
			s.expect("with poison", map[string]string{"bad": "bad.test"}, "bad")
		}
		object := kit.NewScaledObject("ns-bad", "bad", "bad", 1, "poison.test")
		if err := s.scaledObjects[0].Delete(object); err != nil {
			t.Fatal(err)
		}
		s.expect("after the deletion", map[string]string{})
		s.set("bad", "poison.test", good())
		s.expect("with another object of the name", map[string]string{}, "bad")
	})
}

// TestReplacedObjectLeavesTheQuarantine deletes an object that waits, and creates a good one of its name, before the next
// pass.
func TestReplacedObjectLeavesTheQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPoisoned(t)
		s.set("bad", "bad.test", good())
		s.expect("at first", map[string]string{"bad": "bad.test"})
		for version := range 3 {
			s.set("bad", fmt.Sprintf("poison-%d.test", version), good())
			s.expect("with poison", map[string]string{"bad": "bad.test"}, "bad")
		}
		object := kit.WithAnnotation(kit.NewScaledObject("ns-bad", "bad", "bad", 1, "new.test"),
			httpv1alpha1.AnnotationFleet, httpv1alpha1.FleetShared)
		object.UID, object.ResourceVersion = "another", "new"
		if err := errors.Join(s.scaledObjects[0].Delete(object), s.scaledObjects[0].Add(object)); err != nil {
			t.Fatal(err)
		}
		s.expect("with another object of the name", map[string]string{"bad": "new.test"})
	})
}

// TestQuarantinePause lists the pauses after failures.
func TestQuarantinePause(t *testing.T) {
	t.Parallel()
	for failures, want := range map[int]time.Duration{
		1: 0, 2: time.Second, 3: 2 * time.Second, 4: 4 * time.Second, 7: 32 * time.Second, 8: time.Minute, 1000: time.Minute,
	} {
		if got := quarantinePause(failures); got != want {
			t.Errorf("after %d failures: %v, want %v", failures, got, want)
		}
	}
}
