package assert

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/test/load"
	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

// plannedSamples returns one planned sample after the other, each as the number of yellow answers. The other answers
// are blue. It records the requested sizes.
type plannedSamples struct {
	yellow []int
	sizes  []int
	from   []time.Time
}

func (s *plannedSamples) sample(_ context.Context, from time.Time, n int) (load.Window, error) {
	taken := len(s.sizes)
	s.sizes, s.from = append(s.sizes, n), append(s.from, from)
	yellow := s.yellow[taken]
	if yellow < 0 {
		return load.Window{Asked: n, Done: n, Failed: n}, nil
	}
	return load.Window{Asked: n, Done: n, Colors: map[string]int{"yellow": yellow, "blue": n - yellow}}, nil
}

func TestCheck(t *testing.T) {
	from := time.Now().Add(time.Hour)
	tests := []struct {
		name   string
		yellow []int // of samples of 1000 and 2000
		share  float64
		want   stats.Verdict
		sizes  []int
		odd    []int
		fails  error
	}{
		{name: "as requested", yellow: []int{200}, share: 0.2, want: stats.Agrees, sizes: []int{1000}},
		{
			name: "odd by chance", yellow: []int{260, 410}, share: 0.2, want: stats.Agrees,
			sizes: []int{1000, 2000}, odd: []int{260},
		},
		{
			name: "odd again", yellow: []int{260, 500}, share: 0.2, want: stats.Off, sizes: []int{1000, 2000},
			odd: []int{260}, fails: ErrSplit,
		},
		{name: "all but one of all", yellow: []int{999}, share: 1, want: stats.Off, sizes: []int{1000}, fails: ErrSplit},
		{name: "no good answer", yellow: []int{-1}, share: 0.2, want: stats.Off, sizes: []int{1000}, fails: ErrSplit},
		{
			name: "no good answer the second time", yellow: []int{260, -1}, share: 0.2,
			want: stats.Off, sizes: []int{1000, 2000}, odd: []int{260}, fails: ErrSplit,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &plannedSamples{yellow: tt.yellow}
			var odd []int
			result, err := Expectation{
				Color: "yellow", Share: tt.share, From: from, First: 1000, Second: 2000, Rule: stats.DefaultRule(),
				OnUnsure: func(first stats.Split) { odd = append(odd, first.Hits) },
			}.Check(t.Context(), s.sample)
			if result.Verdict != tt.want || !errors.Is(err, tt.fails) {
				t.Errorf("verdict %d, error %v; want %d, %v", result.Verdict, err, tt.want, tt.fails)
			}
			if diff := cmp.Diff(tt.sizes, s.sizes); diff != "" {
				t.Errorf("sizes of samples (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.odd, odd); diff != "" {
				t.Errorf("unsure first samples (-want +got):\n%s", diff)
			}
			if last := tt.yellow[len(tt.yellow)-1]; last >= 0 &&
				(result.Hits != last || result.Total != tt.sizes[len(tt.sizes)-1]) {
				t.Errorf("the result is %d of %d, want the last sample", result.Hits, result.Total)
			}
			if !s.from[0].Equal(from) {
				t.Errorf("the first sample starts at %s, want %s", s.from[0], from)
			}
			if len(s.from) > 1 && !s.from[1].Before(from) {
				t.Errorf("the second sample starts at %s, want: immediately", s.from[1])
			}
		})
	}
}

// A failed sample gives no verdict.
func TestCheckWithoutASample(t *testing.T) {
	late := errors.New("no answers")
	_, err := Expectation{Share: 0.2, First: 10, Second: 20}.Check(t.Context(),
		func(context.Context, time.Time, int) (load.Window, error) {
			return load.Window{}, late
		})
	if !errors.Is(err, late) || errors.Is(err, ErrSplit) {
		t.Errorf("error = %v, want the sample's", err)
	}
}

// stalledMachine is a machine that stalls during the given number of samples.
type stalledMachine struct{ samples int }

func (s *stalledMachine) Largest(time.Time, time.Time) time.Duration {
	s.samples--
	if s.samples < 0 {
		return 0
	}
	return time.Second
}

// A wrong sample is repeated if the machine stalled, up to a limit.
func TestCheckRepeatsVoidSamples(t *testing.T) {
	tests := []struct {
		name   string
		yellow []int // of samples of 1000
		still  int
		fails  error
	}{
		{name: "off on a machine that ran", yellow: []int{900}, fails: ErrSplit},
		{name: "off during a stall, then as asked", yellow: []int{900, 1000}, still: 1},
		{name: "off during a stall, then off", yellow: []int{900, 900}, still: 1, fails: ErrSplit},
		{name: "off all the time", yellow: []int{900, 900, 900, 900, 900, 900}, still: 100, fails: ErrSplit},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &plannedSamples{yellow: tt.yellow}
			_, err := Expectation{
				Color: "yellow", Share: 1, From: time.Now(), First: 1000, Second: 2000, Rule: stats.DefaultRule(),
				Stalls: &stalledMachine{tt.still},
			}.Check(t.Context(), s.sample)
			if !errors.Is(err, tt.fails) || len(s.sizes) != len(tt.yellow) {
				t.Errorf("error %v after %d samples, want %v after %d", err, len(s.sizes), tt.fails, len(tt.yellow))
			}
		})
	}
}
