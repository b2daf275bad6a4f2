package ingest_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// large returns an object of namespace apps of which three are within the smallest bound.
func large(name string, rank int) *httpv1alpha1.HTTPScaledObject {
	object := kit.NewScaledObject("apps", name, "shop", rank)
	for i := range 4 {
		object.Spec.Hosts = append(object.Spec.Hosts, fmt.Sprintf("h%d.%s.test", i, name))
	}
	object.Spec.PathPrefixes = prefixes(256)
	return object
}

func prefixes(count int) []string {
	var all []string
	for i := range count {
		all = append(all, fmt.Sprintf("/%d%s", i, strings.Repeat("p", 900)))
	}
	return all
}

// readOne is the source of one HTTPScaledObject. It fails as often as the test wants.
func (s *environment) readOne(key model.Key) cache.ListerWatcherWithContext {
	return &cache.ListWatch{ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
		s.mu.Lock()
		s.reads = append(s.reads, key.Name)
		failed := s.failedReads > 0
		s.failedReads--
		s.mu.Unlock()
		if failed {
			return nil, errors.New("injected")
		}
		list, err := s.scaledObjects.List(metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return nil, err
		}
		items = slices.DeleteFunc(items, func(item runtime.Object) bool {
			object := item.(*httpv1alpha1.HTTPScaledObject)
			return object.Name != key.Name || object.Namespace != key.Namespace
		})
		return list, meta.SetList(list, items)
	}}
}

// budgetState returns the served objects, those that are kept whole, and those that report the limit of memory, sorted.
func (s *environment) budgetState() (served, whole, limited []string) {
	time.Sleep(time.Minute) // The clock is synctest's.
	for key, object := range s.lastPass().Objects {
		if object.Outcome.Served {
			served = append(served, key.Name)
		}
		if len(object.ScaledObject.Spec.Hosts) > 0 {
			whole = append(whole, key.Name)
		}
		for _, problem := range object.Outcome.Problems {
			if problem.Reason == httpv1alpha1.ReasonNamespaceLimit && strings.Contains(problem.Message, "limit of 4 MiB") &&
				strings.Contains(problem.Message, "--max-objects-per-namespace") {
				limited = append(limited, key.Name)
			}
		}
	}
	slices.Sort(served)
	slices.Sort(whole)
	slices.Sort(limited)
	return served, whole, limited
}

// TestObjectsAboveTheBound has objects of one namespace that exceed its memory. The oldest are kept, and the others take
// their place when they are deleted.
func TestObjectsAboveTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEnvironment(t)
		s.resolve.MaxObjects = 100
		for _, name := range []string{"f", "c", "e", "b", "d"} { // not in the order of age
			s.scaledObjects.Add(large(name, 10+int(name[0])))
		}
		s.scaledObjects.Add(kit.NewScaledObject("other", "other", "shop", 999, "other.test"))
		defer s.run(t)()
		expect := func(step string, served, limited []string) {
			t.Helper()
			gotServed, whole, gotLimited := s.budgetState()
			if !slices.Equal(gotServed, served) || !slices.Equal(whole, served) || !slices.Equal(gotLimited, limited) {
				t.Errorf("%s: served %q, kept %q, limited %q; want %q and %q", step, gotServed, whole, gotLimited, served,
					limited)
			}
		}
		expect("at the start", []string{"b", "c", "d", "other", "shop"}, []string{"e", "f"})
		if len(s.reads) > 0 {
			t.Errorf("objects were read again: %q", s.reads)
		}
		s.scaledObjects.Add(large("a", 5))
		expect("an older object", []string{"a", "b", "c", "other", "shop"}, []string{"d", "e", "f"})
		s.scaledObjects.Add(large("g", 500))
		expect("a younger object", []string{"a", "b", "c", "other", "shop"}, []string{"d", "e", "f", "g"})
		s.failedReads = 3
		s.scaledObjects.Delete(large("b", 10+'b'))
		expect("a deleted object", []string{"a", "c", "d", "other", "shop"}, []string{"e", "f", "g"})
		if want := []string{"d", "d", "d", "d"}; !slices.Equal(s.reads, want) {
			t.Errorf("read again: %q, want %q", s.reads, want)
		}
		small := large("c", 10+'c')
		small.Spec.Hosts, small.Spec.PathPrefixes = []string{"c.test"}, nil
		s.scaledObjects.Modify(small)
		expect("a smaller object", []string{"a", "c", "d", "e", "other", "shop"}, []string{"f", "g"})
		s.scaledObjects.Delete(large("f", 10+'f'))
		s.scaledObjects.Delete(large("a", 5))
		expect("deleted above and below the bound", []string{"c", "d", "e", "g", "other", "shop"}, nil)
		if want := []string{"d", "d", "d", "d", "e", "g"}; !slices.Equal(s.reads, want) {
			t.Errorf("read again: %q, want %q", s.reads, want)
		}
	})
}

// TestAListIsTrimmedToTheBound trims random objects in random order: those that stay whole are the oldest within the
// bound.
func TestAListIsTrimmedToTheBound(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 1))
		limit := 1 << (14 + random.IntN(5))
		trimmer := ingest.NewListTrimmer(limit)
		var objects []*httpv1alpha1.HTTPScaledObject
		sizes := map[string]int{}
		for i := range 1 + random.IntN(30) {
			object := kit.NewScaledObject("apps", fmt.Sprint("o", i), "shop", random.IntN(9), "a.test")
			object.Spec.PathPrefixes = prefixes(1 + random.IntN(20))
			alone := ingest.NewListTrimmer(1)
			copied := object.DeepCopy()
			alone.Trim(copied)
			sizes[object.Name] = copied.Spec.OmittedBytes
			objects = append(objects, object)
			trimmer.Trim(object)
		}
		slices.SortFunc(objects, func(a, b *httpv1alpha1.HTTPScaledObject) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
		})
		sum := 0
		for _, object := range objects {
			sum += sizes[object.Name]
			if isWhole := len(object.Spec.Hosts) == 1; isWhole != (sum <= limit) {
				t.Fatalf("seed %d: %s of %d bytes, the %d oldest: whole %v, limit %d", seed, object.Name, sizes[object.Name], sum,
					isWhole, limit)
			}
		}
	}
}

// TestLargestObjectIsWithinTheBound checks that the smallest bound has a place for any object that the schema admits.
func TestLargestObjectIsWithinTheBound(t *testing.T) {
	t.Parallel()
	object := kit.NewScaledObject("apps", "shop", strings.Repeat("s", 1<<20), 1)
	for range resolve.MaxHosts {
		object.Spec.Hosts = append(object.Spec.Hosts, strings.Repeat("h", 260))
		object.Spec.PathPrefixes = append(object.Spec.PathPrefixes, strings.Repeat("p", 1025))
	}
	value := strings.Repeat("v", 4096)
	for range resolve.MaxHeaders {
		object.Spec.Headers = append(object.Spec.Headers, httpv1alpha1.Header{Name: strings.Repeat("n", 256), Value: &value})
	}
	limit := resolve.Options{MaxObjects: 1}.MaxObjectBytes()
	if ingest.NewListTrimmer(limit).Trim(object); object.Spec.OmittedBytes > 0 {
		t.Errorf("an object of %d bytes is above the bound of %d", object.Spec.OmittedBytes, limit)
	}
}

// TestTheBoundAfterRandomChanges changes random objects, also while the watch is interrupted. In the end, those that a
// list would keep are whole.
func TestTheBoundAfterRandomChanges(t *testing.T) {
	for seed := range uint64(2) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 2))
			s := newEnvironment(t)
			s.resolve.MaxObjects = 100
			defer s.run(t)()
			stored := map[string]*httpv1alpha1.HTTPScaledObject{"shop": shop()}
			time.Sleep(time.Second)
			for step := range 25 {
				isInterrupted := random.IntN(5) == 0
				if isInterrupted {
					s.scaledObjects.fail(errors.New("interrupted"))
					time.Sleep(time.Second)
				}
				for range 1 + random.IntN(3) {
					name := fmt.Sprint("o", random.IntN(12))
					before := stored[name]
					object := large(name, random.IntN(20))
					object.Spec.PathPrefixes = object.Spec.PathPrefixes[:1+random.IntN(256)]
					switch {
					case before == nil:
						stored[name] = object
						s.scaledObjects.Add(object.DeepCopy()) // the source changes it
					case random.IntN(2) == 0:
						delete(stored, name)
						s.scaledObjects.Delete(before.DeepCopy())
					default:
						object.CreationTimestamp, object.UID = before.CreationTimestamp, before.UID
						stored[name] = object
						s.scaledObjects.Modify(object.DeepCopy())
					}
				}
				if isInterrupted {
					s.scaledObjects.fail(nil)
				}
				_, whole, _ := s.budgetState()
				if want := keptOf(stored); !slices.Equal(whole, want) {
					t.Fatalf("seed %d, step %d: kept %q, want %q", seed, step, whole, want)
				}
			}
		})
	}
}

// keptOf returns the names of the objects that a list keeps, sorted.
func keptOf(stored map[string]*httpv1alpha1.HTTPScaledObject) []string {
	trimmer := ingest.NewListTrimmer(resolve.Options{MaxObjects: 100}.MaxObjectBytes())
	var copies []*httpv1alpha1.HTTPScaledObject
	for _, object := range stored {
		copies = append(copies, object.DeepCopy())
		trimmer.Trim(copies[len(copies)-1])
	}
	var kept []string
	for _, object := range copies {
		if object.Spec.OmittedBytes == 0 {
			kept = append(kept, object.Name)
		}
	}
	slices.Sort(kept)
	return kept
}
