package stall

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestLargest(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	d := &Detector{last: start, ended: make(chan struct{})}
	close(d.ended)
	for _, ms := range []int{10, 20, 170, 180, 190, 215, 500, 510} {
		d.tick(at(ms))
	}
	tests := []struct {
		name        string
		from, until int
		want        time.Duration
	}{
		{name: "no gap", from: 0, until: 20},
		{name: "before the first gap ends", from: 30, until: 40, want: 150 * time.Millisecond},
		{name: "short gaps are recorded above 20 ms", from: 180, until: 215, want: 25 * time.Millisecond},
		{name: "largest of all", from: 0, until: 600, want: 285 * time.Millisecond},
		{name: "after the last gap", from: 500, until: 600},
		{name: "between two gaps", from: 170, until: 190},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := d.Largest(at(tt.from), at(tt.until)); got != tt.want {
				t.Errorf("Largest = %s, want %s", got, tt.want)
			}
		})
	}
	if got := len(d.gaps); got != 3 {
		t.Errorf("%d gaps are kept, want 3", got)
	}
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		d := Watch(t)
		time.Sleep(time.Second)
		if got := d.Largest(began, time.Now()); got != 0 {
			t.Errorf("Largest = %s while every tick is in time, want 0", got)
		}
		d.Stop()
		d.Stop()
		time.Sleep(time.Second)
		if got := d.Largest(began, time.Now()); got != 0 {
			t.Errorf("Largest = %s after Stop, want 0", got)
		}
	})
}

func TestPresentGap(t *testing.T) {
	d := &Detector{last: time.Now().Add(-time.Second), ended: make(chan struct{})}
	if got := d.Largest(time.Now().Add(-500*time.Millisecond), time.Now()); got < time.Second {
		t.Errorf("Largest = %s for a gap that has not ended, want at least 1 s", got)
	}
}
