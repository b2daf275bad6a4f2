package scenario

import (
	"testing"

	"github.com/kedify/argo-rollouts-plugin/e2e/envoyadmin"
)

// Envoy may run the weights of the steps, one side alone, or no route yet.
func TestIsRequestedSplit(t *testing.T) {
	tests := []struct {
		shares envoyadmin.Shares
		want   bool
	}{
		{nil, true},
		{pair(1, 0), true},
		{pair(0, 1), true},
		{pair(0.8, 0.2), true},
		{pair(0.5, 0.5), true},
		{pair(1-0.8, 0.8), true},
		{pair(0.65, 0.35), false},
		{envoyadmin.Shares{"another": 1}, false},
	}
	for _, tt := range tests {
		if got := isRequestedSplit(tt.shares); got != tt.want {
			t.Errorf("isRequestedSplit(%v) = %v, want %v", tt.shares, got, tt.want)
		}
	}
}
