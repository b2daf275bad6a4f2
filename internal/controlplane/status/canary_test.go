package status

import "testing"

// TestCanaryPercentage: the percentage is that of the second backend, of the sum of all weights.
func TestCanaryPercentage(t *testing.T) {
	t.Parallel()
	for weights, want := range map[string]string{
		"":                            "",
		"[{service: a, weight: 100}]": "",
		"[{service: a, weight: 80}, {service: b, weight: 20}]":                           "20%",
		"[{service: a, weight: 100}, {service: b, weight: 0}]":                           "0%",
		"[{service: a, weight: 2}, {service: b, weight: 1}]":                             "33.33%",
		"[{service: a, weight: 70}, {service: b, weight: 20}, {service: c, weight: 10}]": "20%",
	} {
		if got := canaryPercentage(weights); got != want {
			t.Errorf("%q: %q, want %q", weights, got, want)
		}
	}
}
