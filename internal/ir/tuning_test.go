package ir_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/ir"
)

// TestOver has settings of a namespace over those for all.
func TestOver(t *testing.T) {
	t.Parallel()
	all := &ir.Tuning{
		Route:   ir.RouteTuning{RetryOn: "5xx", Retries: ir.Given[uint32]{Value: 3, IsGiven: true}, BackOff: ir.BackOff{Base: 1, Max: 2}},
		Cluster: ir.ClusterTuning{MaxRequests: 7, Balance: ir.Balance{Policy: "RANDOM"}},
	}
	own := &ir.Tuning{
		Route:   ir.RouteTuning{IdleTimeout: time.Second, Retries: ir.Given[uint32]{IsGiven: true}, BackOff: ir.BackOff{Base: 5}},
		Cluster: ir.ClusterTuning{Balance: ir.Balance{Policy: "LEAST_REQUEST", ChoiceCount: 2}},
	}
	want := &ir.Tuning{
		Route: ir.RouteTuning{
			RetryOn: "5xx", IdleTimeout: time.Second, Retries: ir.Given[uint32]{IsGiven: true}, BackOff: ir.BackOff{Base: 5},
		},
		Cluster: ir.ClusterTuning{MaxRequests: 7, Balance: ir.Balance{Policy: "LEAST_REQUEST", ChoiceCount: 2}},
	}
	for name, test := range map[string]struct{ own, all, want *ir.Tuning }{
		"both": {own, all, want}, "none": {nil, nil, nil}, "the wider": {nil, all, all}, "the own": {own, nil, own},
		"one that says nothing": {new(ir.Tuning), all, all},
	} {
		if diff := cmp.Diff(test.want, test.own.Over(test.all)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if !new(ir.Tuning).Equal(nil) || own.Equal(nil) || own.Equal(all) || !own.Equal(own.Over(nil)) {
		t.Error("Equal is wrong")
	}
}
