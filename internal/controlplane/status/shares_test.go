package status

import (
	"fmt"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// testedWorkers is the number of workers of the shares in these tests.
const testedWorkers = 16

// enterAll has the objects of a namespace enter, by their numbers, and returns how many may be written.
func enterAll(s *shares, namespace string, first, end int) (entered int) {
	for i := first; i < end; i++ {
		if s.enter(objectAt(namespace, i)) {
			entered++
		}
	}
	return entered
}

// objectAt returns an object of a namespace.
func objectAt(namespace string, i int) model.Key {
	return model.Key{Namespace: namespace, Name: fmt.Sprint("web-", i)}
}

func noCanary(model.Key) bool { return false }

// TestSharesGrowAgain has objects that need no write any more after one of them has waited: others take their place.
func TestSharesGrowAgain(t *testing.T) {
	t.Parallel()
	s := newShares(testedWorkers, noCanary)
	if entered := enterAll(s, "shop", 0, 40); entered != 8 {
		t.Fatalf("%d of 16 workers write for one namespace, want half", entered)
	}
	for done := range 8 {
		next := s.leave(objectAt("shop", done))
		if len(next) != 1 {
			t.Fatalf("after %d writes, leave returned %v", done+1, next)
		}
		// It needs no write.
		if next = s.pass("shop"); len(next) != 1 || !s.enter(next[0]) {
			t.Fatalf("after %d writes, pass returned %v, want an object that can be written", done+1, next)
		}
	}
	if s.running["shop"] != 8 {
		t.Errorf("%d writes are in progress, want 8 as before", s.running["shop"])
	}
}

// TestSharesUseFreeWorkers has a namespace that got one worker while others used the rest. When they end, it gets more.
func TestSharesUseFreeWorkers(t *testing.T) {
	t.Parallel()
	s := newShares(testedWorkers, noCanary)
	for i := range 5 {
		enterAll(s, fmt.Sprint("other-", i), 0, 3)
	}
	if entered := enterAll(s, "shop", 0, 40); entered != 1 {
		t.Fatalf("%d writes of the namespace, want 1 of the last worker", entered)
	}
	for i := range 5 {
		for object := range 3 {
			other := objectAt(fmt.Sprint("other-", i), object)
			if s.running[other.Namespace] == 0 {
				continue // It waits, and another one has taken its place.
			}
			for _, next := range s.leave(other) {
				if !s.enter(next) {
					t.Errorf("%v was returned and may not be written: %v, free %d", next, s.running, s.free)
				}
			}
		}
	}
	if s.running["shop"] != 8 {
		t.Errorf("%d writes are in progress, want half of the workers", s.running["shop"])
	}
}

// TestSharesEndWithNothing ends all writes of many namespaces, of whose objects some need none: no object is forgotten.
func TestSharesEndWithNothing(t *testing.T) {
	t.Parallel()
	s := newShares(testedWorkers, noCanary)
	const namespaces, objects = 40, 25
	var queue []model.Key
	for i := range namespaces * objects {
		queue = append(queue, objectAt(fmt.Sprint("ns-", i%namespaces), i/namespaces))
	}
	var writing []model.Key
	planned := map[model.Key]bool{}
	for len(queue) > 0 || len(writing) > 0 {
		if len(queue) == 0 || len(writing) == 15 { // One worker plans.
			queue = append(queue, s.leave(writing[0])...)
			writing = writing[1:]
			continue
		}
		key := queue[0]
		queue = queue[1:]
		switch {
		case len(key.Name)%2 == 0:
			planned[key] = true
			queue = append(queue, s.pass(key.Namespace)...)
		case s.enter(key):
			planned[key] = true
			writing = append(writing, key)
		default:
			queue = append(queue, s.pass(key.Namespace)...)
		}
	}
	if len(planned) != namespaces*objects || len(s.parked)+len(s.isIn) > 0 || s.free != testedWorkers {
		t.Errorf("%d of %d objects, %d still wait, %d workers are free", len(planned), namespaces*objects, len(s.isIn), s.free)
	}
}

// TestWaitingObjectBecomesCanary has an object that waits when its canary begins: it precedes the others.
func TestWaitingObjectBecomesCanary(t *testing.T) {
	t.Parallel()
	canary := model.Key{}
	s := newShares(2, func(key model.Key) bool { return key == canary })
	enterAll(s, "shop", 0, 20)
	canary = objectAt("shop", 19)
	if s.enter(canary) {
		t.Fatal("the share is not used up")
	}
	if next := s.leave(objectAt("shop", 0)); len(next) != 1 || next[0] != canary {
		t.Errorf("leave returned %v, want the canary", next)
	}
}
