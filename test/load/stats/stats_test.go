package stats

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// The reference values are the worked examples of Newcombe, "Two-sided confidence intervals for the single proportion"
// (1998), method 3.
func TestWilson(t *testing.T) {
	tests := []struct {
		split Split
		want  Interval
	}{
		{Split{81, 263}, Interval{0.2553, 0.3662}},
		{Split{15, 148}, Interval{0.0624, 0.1605}},
		{Split{0, 20}, Interval{0, 0.1611}},
		{Split{1, 29}, Interval{0.0061, 0.1718}},
		{Split{20, 20}, Interval{0.8389, 1}},
		{Split{0, 0}, Interval{0, 1}},
	}
	for _, tt := range tests {
		got := tt.split.Wilson(Z95)
		if math.Abs(got.Low-tt.want.Low) > 5e-5 || math.Abs(got.High-tt.want.High) > 5e-5 {
			t.Errorf("%+v: interval %.4f to %.4f, want %.4f to %.4f", tt.split, got.Low, got.High, tt.want.Low, tt.want.High)
		}
	}
}

// Calculated manually. Two of two events have probability 1/81 at a chance of one ninth. At least one of three occurs
// unless all three fall on the other eight ninths.
func TestTail(t *testing.T) {
	tests := []struct {
		split  Split
		chance float64
		want   float64
	}{
		{Split{0, 0}, 0.1, 1},
		{Split{0, 7}, 0.1, 1},
		{Split{2, 2}, 1.0 / 9, 1.0 / 81},
		{Split{1, 3}, 1.0 / 9, 1 - 512.0/729},
		{Split{3, 3}, 0.5, 0.125},
		{Split{2, 4}, 0.5, 11.0 / 16},
	}
	for _, tt := range tests {
		if got := tt.split.Tail(tt.chance); math.Abs(got-tt.want) > 1e-12 {
			t.Errorf("%d or more of %d at %.3f: %v, want %v", tt.split.Hits, tt.split.Total, tt.chance, got, tt.want)
		}
	}
}

func TestRule(t *testing.T) {
	tests := []struct {
		name         string
		split        Split
		asked        float64
		first, fresh Verdict
	}{
		{"as requested", Split{400, 2000}, 0.2, Agrees, Agrees},
		{"3 σ is 53.7 requests: inside", Split{453, 2000}, 0.2, Agrees, Agrees},
		{"outside: the second sample decides whether it is chance", Split{454, 2000}, 0.2, Unsure, Agrees},
		{"beyond 3.5 σ", Split{463, 2000}, 0.2, Unsure, Off},
		{"below counts like above", Split{337, 2000}, 0.2, Unsure, Off},
		{"swapped weights", Split{1600, 2000}, 0.2, Unsure, Off},
		{"all is exact", Split{2000, 2000}, 1, Agrees, Agrees},
		{"one short of all", Split{1999, 2000}, 1, Off, Off},
		{"none is exact", Split{0, 2000}, 0, Agrees, Agrees},
		{"one more than none", Split{1, 2000}, 0, Off, Off},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rule := DefaultRule()
			if got := rule.Evaluate(tt.split, tt.asked); got != tt.first {
				t.Errorf("first sample: verdict %d, want %d", got, tt.first)
			}
			if got := rule.EvaluateSecond(tt.split, tt.asked); got != tt.fresh {
				t.Errorf("second sample: verdict %d, want %d", got, tt.fresh)
			}
		})
	}
}

// A correct split of 20 % passes, and one with a deviation of 4 percentage points fails: 2000 seeded steps each.
func TestRuleSeparatesChanceFromFaults(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func(n int, share float64) Split {
		s := Split{Total: n}
		for range n {
			if rng.Float64() < share {
				s.Hits++
			}
		}
		return s
	}
	faults := func(share float64) int {
		n := 0
		for range 2000 {
			verdict := DefaultRule().Evaluate(draw(2000, share), 0.2)
			if verdict == Unsure {
				verdict = DefaultRule().EvaluateSecond(draw(4000, share), 0.2)
			}
			if verdict == Off {
				n++
			}
		}
		return n
	}
	if got := faults(0.20); got != 0 {
		t.Errorf("%d of 2000 right splits were called faults", got)
	}
	if got := faults(0.24); got < 1700 {
		t.Errorf("%d of 2000 splits that are 4 points off were called faults, want nearly all", got)
	}
}

func TestQuantile(t *testing.T) {
	var ten []time.Duration
	for i := range 10 {
		ten = append(ten, time.Duration(10-i))
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 5, 0.99: 10, 1: 10} {
		if got := Quantile(ten, q); got != want {
			t.Errorf("quantile %v of 1 to 10 = %d, want %d", q, got, want)
		}
	}
	if got := Quantile[time.Duration](nil, 0.5); got != 0 {
		t.Errorf("quantile of nothing = %d, want 0", got)
	}
	if ten[0] != 10 {
		t.Error("the input was sorted in place")
	}
}
