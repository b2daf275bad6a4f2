package load

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPlanIsEven(t *testing.T) {
	p := Plan{Rate: 250}
	if got := p.At(0); got != 0 {
		t.Errorf("the first request is due at %s", got)
	}
	if got := p.At(250 * 60); got != time.Minute {
		t.Errorf("request 15000 is due at %s, want 1m", got)
	}
}

func TestPlanFirst(t *testing.T) {
	for _, rate := range []float64{220, 250, 333, 1000, 7} {
		p := Plan{Rate: rate}
		for _, d := range []time.Duration{
			-time.Second, 0, 1, 3999999, 4 * time.Millisecond,
			time.Second, 90*time.Second + 1,
		} {
			i := p.First(d)
			if p.At(i) < d || (i > 0 && p.At(i-1) >= d) {
				t.Errorf("rate %v: request %d, due at %s, is not the first from %s on", rate, i, p.At(i), d)
			}
		}
	}
}

func TestPlanMixesAllKinds(t *testing.T) {
	counts := map[Kind]int{}
	for i := range 250 {
		counts[Plan{Rate: 250}.Kind(i)]++
	}
	want := map[Kind]int{FreshHTTP1: 60, FreshHTTP2: 30, KeptHTTP1: 70, KeptHTTP2: 70, PinnedHTTP1: 10, PinnedHTTP2: 10}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Errorf("requests of one second (-want +got):\n%s", diff)
	}
}
