package testbed

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/e2e/inside"
)

// A terminated proxy has to run no later weight, but no unexpected one either.
func TestTerminatedProxy(t *testing.T) {
	versions := []inside.Version{
		object(t, 0, 0, 0, 1, 1), object(t, 10, 20, 0, 1, 1), object(t, 11, 20, 20, 1, 1),
		object(t, 20, 0, 20, 1, 1), object(t, 21, 0, 0, 1, 1),
	}
	for _, test := range []struct {
		name  string
		polls []poll
		ended int // seconds after the start; 0 is never
		want  []Check
	}{
		{"it terminates with a weight", []poll{{0, 0}, {11, 20}}, 15, nil},
		{"it does not terminate", []poll{{0, 0}, {11, 20}}, 0, []Check{CheckEnd}},
		{"it returned the former weight after it terminated", []poll{{0, 0}, {12, 0}}, 11, nil},
		{"it returned the former weight before", []poll{{0, 0}, {12, 0}}, 13, []Check{CheckEarlyACK}},
		{"its last weight was not requested", []poll{{0, 0}, {11, 30}}, 15, []Check{CheckUnexpectedWeights}},
		{"it terminated before the canary", []poll{{0, 70}}, 2, nil},
	} {
		record := recordOf(versions, test.polls...)
		if test.ended > 0 {
			since := start().Add(time.Duration(test.ended) * time.Second)
			record.endEnvoy("e", since)
			record.addEnvoy("e", since, since, nil, nil) // a request that began before
		}
		var v Verdict
		v.evaluate(record, start().Add(5*time.Second), []int{0, 20, 0}, fineTally(), true)
		if diff := cmp.Diff(test.want, v.Failed()); diff != "" {
			t.Errorf("%s: checks that found something (-want +got):\n%s\n%v", test.name, diff, v.Findings)
		}
	}
}

// A proxy counts from its readiness until it terminates.
func TestPods(t *testing.T) {
	var list pods
	if err := json.Unmarshal([]byte(`{"items": [
		{"metadata": {"name": "starts"}, "status": {"conditions": [{"type": "Ready", "status": "False"}]}},
		{"metadata": {"name": "runs"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}},
		{"metadata": {"name": "ends", "deletionTimestamp": "2026-01-01T00:00:40Z", "deletionGracePeriodSeconds": 30},
		 "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
	]}`), &list); err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		ready   bool
		deleted time.Time
	}{{}, {ready: true}, {deleted: start().Add(10 * time.Second)}} {
		pod := list.Items[i]
		if pod.isReady() != want.ready || !pod.deleted().Equal(want.deleted) {
			t.Errorf("%s: ready %t, deleted %v, want %+v", pod.Metadata.Name, pod.isReady(), pod.deleted(), want)
		}
	}
}
