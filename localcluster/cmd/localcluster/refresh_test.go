package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/localcluster/install"
	"github.com/kedify/argo-rollouts-plugin/localcluster/product"
)

// A changed program needs only its restart and the waits, unless manifests have changed, too: mutants replace one
// program after another.
func TestRefreshSteps(t *testing.T) {
	all := []install.Step{
		{Title: "apply a", Args: []string{"a"}},
		{Title: "apply b", Args: []string{"b"}},
		{Title: "wait for a", Wait: true},
		{Title: "wait for b", Wait: true},
	}
	restart := install.RestartInterceptor().Title
	tests := []struct {
		name      string
		programs  []string
		installed []install.Step
		want      []string
	}{
		{"another program", []string{string(product.Interceptor)}, all, []string{restart, "wait for a", "wait for b"}},
		{"other manifests", nil, nil, []string{"apply a", "apply b", "wait for a", "wait for b"}},
		{
			"both",
			[]string{string(product.Interceptor)},
			nil,
			[]string{"apply a", "apply b", restart, "wait for a", "wait for b"},
		},
		{"an add-on", nil, all[:1], []string{"apply b", "wait for a", "wait for b"}},
		{"the sample, which its user restarts", []string{"rollouts-demo"}, all, []string{"wait for a", "wait for b"}},
	}
	for _, tt := range tests {
		var got []string
		for _, step := range refreshSteps(all, tt.programs, tt.installed) {
			got = append(got, step.Title)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
