package model_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// TestOver has settings of a namespace over those for all.
func TestOver(t *testing.T) {
	t.Parallel()
	all := &model.EnvoySettings{
		Route: model.RouteSettings{
			RetryOn: "5xx", Retries: model.Given[uint32]{Value: 3, IsGiven: true},
			BackOff: model.BackOff{Base: 1, Max: 2},
		},
		Cluster: model.ClusterSettings{MaxRequests: 7, Balance: model.Balance{Policy: "RANDOM"}},
	}
	own := &model.EnvoySettings{
		Route: model.RouteSettings{
			IdleTimeout: model.TimeoutOf(time.Second), Retries: model.Given[uint32]{IsGiven: true},
			BackOff: model.BackOff{Base: 5},
		},
		Cluster: model.ClusterSettings{Balance: model.Balance{Policy: "LEAST_REQUEST", ChoiceCount: 2}},
	}
	want := &model.EnvoySettings{
		Route: model.RouteSettings{
			RetryOn: "5xx", IdleTimeout: model.TimeoutOf(time.Second), Retries: model.Given[uint32]{IsGiven: true},
			BackOff: model.BackOff{Base: 5},
		},
		Cluster: model.ClusterSettings{MaxRequests: 7, Balance: model.Balance{Policy: "LEAST_REQUEST", ChoiceCount: 2}},
	}
	for name, test := range map[string]struct{ own, all, want *model.EnvoySettings }{
		"both": {own, all, want}, "none": {nil, nil, nil}, "the wider": {nil, all, all}, "the own": {own, nil, own},
		"empty settings": {new(model.EnvoySettings), all, all},
	} {
		if diff := cmp.Diff(test.want, test.own.Over(test.all)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	budget := model.ClusterSettings{RetryBudget: model.RetryBudget{Percent: model.Given[float64]{Value: 10, IsGiven: true}}}
	number := model.ClusterSettings{MaxRetries: 5, Outliers: model.Outliers{Max: time.Minute}}
	for name, test := range map[string]struct{ own, all, want model.ClusterSettings }{
		"a budget over a number": {budget, number, model.ClusterSettings{
			RetryBudget: budget.RetryBudget, Outliers: number.Outliers,
		}},
		"a number over a budget": {number, budget, number},
		"a CA over a CA and a name": {
			model.ClusterSettings{TLS: model.UpstreamTLS{CA: "own"}},
			model.ClusterSettings{MaxRequests: 1, TLS: model.UpstreamTLS{CA: "all", Name: "a.test"}},
			model.ClusterSettings{MaxRequests: 1, TLS: model.UpstreamTLS{CA: "own"}},
		},
		"neither": {
			model.ClusterSettings{Outliers: model.Outliers{Base: time.Second}},
			number,
			model.ClusterSettings{MaxRetries: 5, Outliers: model.Outliers{Base: time.Second}},
		},
	} {
		got := (&model.EnvoySettings{Cluster: test.own}).Over(&model.EnvoySettings{Cluster: test.all})
		if diff := cmp.Diff(&model.EnvoySettings{Cluster: test.want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if !new(model.EnvoySettings).Equal(nil) || own.Equal(nil) || own.Equal(all) || !own.Equal(own.Over(nil)) {
		t.Error("Equal is wrong")
	}
}
