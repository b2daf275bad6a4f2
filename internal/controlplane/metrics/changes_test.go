package metrics_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// TestChangesMakeTheWholeReport adds and removes objects and proxies for a long time. A client that applies only
// changes, over JSON, always has the same report as a client of whole reports, and is notified of each changed object.
func TestChangesMakeTheWholeReport(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	s := newFixture(t, "1", "2")
	last, applied := metrics.Report{Replica: "a"}, metrics.Report{Replica: "a"}
	for step := range 2000 {
		s.now = s.now.Add(time.Duration(random.IntN(3)) * time.Second)
		key := model.Key{Namespace: "apps", Name: fmt.Sprintf("shop-%d", random.IntN(4))}
		switch random.IntN(7) {
		case 0:
			s.meter.SetObject(s.now, key, shopObject(""))
		case 1:
			s.meter.RemoveObject(key)
		case 2:
			s.serving([]string{"1", "2", "-2", "3"}[:random.IntN(5)]...)
		case 3:
			if s.streams["1"] != nil {
				s.end("1")
			}
		default:
			s.flush("1", float64(random.IntN(3)))
		}
		changes := s.meter.Changes(s.now, &last)
		if random.IntN(2) == 0 {
			changes.Queued = map[string]metrics.Queued{key.String(): {Waiting: 1 + random.IntN(2)}}
		}
		before := overTheWire(t, applied) // ApplyTo reuses its argument.
		received := overTheWire(t, changes)
		names, isAny := received.Diff(applied)
		applied = received.ApplyTo(applied)
		want := s.meter.Report(s.now, "a")
		want.Queued = changes.Queued
		if diff := cmp.Diff(want, applied, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("step %d: -want +got:\n%s", step, diff)
		}
		for name, object := range applied.Objects {
			isUnchanged := cmp.Equal(object, before.Objects[name], cmpopts.EquateEmpty()) &&
				applied.Queued[name] == before.Queued[name]
			if !isUnchanged && !isAny && !slices.Contains(names, name) {
				t.Fatalf("step %d: %s has changed, but the diff contains %v", step, name, names)
			}
		}
		if isSame := cmp.Equal(before, applied, cmpopts.EquateEmpty()); isSame && (len(names) > 0 || isAny) {
			t.Fatalf("step %d: nothing has changed, but the diff contains %v, any: %v", step, names, isAny)
		}
		if whole, isAny := overTheWire(t, want).Diff(before); !isAny && slices.Compare(sorted(whole), sorted(names)) != 0 {
			t.Fatalf("step %d: the diff of a whole report contains %v, that of the changes %v", step, whole, names)
		}
	}
}

// sorted returns texts in order, without duplicates.
func sorted(texts []string) []string { return slices.Compact(slices.Sorted(slices.Values(texts))) }

// overTheWire returns a report after encoding and decoding.
func overTheWire(t *testing.T, report metrics.Report) (read metrics.Report) {
	t.Helper()
	text, err := json.Marshal(report)
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// TestUnchangedObjectsMakeNoGarbage has a thousand objects without requests: neither the batches of their proxy nor the
// changes allocate more than those of ten objects.
func TestUnchangedObjectsMakeNoGarbage(t *testing.T) {
	allocations := func(objects int) float64 {
		s := newFixture(t, "1")
		batch := metrics.Batch{HasZero: true}
		for i := range objects {
			key := model.Key{Namespace: "apps", Name: fmt.Sprintf("shop-%d", i)}
			object := shopObject("")
			object.Services = object.Services[:1] // Totals of several Services are reported for each.
			s.meter.SetObject(s.now, key, object)
			for _, measure := range []metrics.Measure{metrics.RequestsTotal, metrics.RequestsActive} {
				batch.Samples = append(batch.Samples, metrics.Sample{Cluster: key.String() + "/stable", Measure: measure})
			}
		}
		stream := s.meter.Open(s.now, fleet, "1")
		report := metrics.Report{Replica: "a"}
		flush := func() {
			s.now = s.now.Add(time.Second)
			batch.Time = s.now.UnixMilli()
			if _, err := stream.Apply(s.now, batch); err != nil {
				t.Fatal(err)
			}
			if changes := s.meter.Changes(s.now, &report); len(changes.Objects) > 0 && len(report.Fleets[fleet].Reporting) == 0 {
				t.Fatalf("%+v", changes)
			}
		}
		for range 15 { // The window is full by then.
			flush()
		}
		return testing.AllocsPerRun(20, flush)
	}
	if few, many := allocations(10), allocations(1000); many > few+5 {
		t.Errorf("%v allocations for 10 objects, %v for 1000", few, many)
	}
}
