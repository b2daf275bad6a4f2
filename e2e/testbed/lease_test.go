package testbed

import (
	"testing"
	"time"
)

func TestLeaseWatch(t *testing.T) {
	tests := []struct {
		name    string
		seconds []int
		want    bool
	}{
		{name: "never seen"},
		{name: "renewed in time", seconds: []int{0, 5, 5, 10, 20}},
		{name: "renewed too late", seconds: []int{0, 5, 21, 26}, want: true},
	}
	for _, tt := range tests {
		w := new(LeaseWatcher)
		for _, second := range tt.seconds {
			w.add(start().Add(time.Duration(second)*time.Second), 15*time.Second)
		}
		if got := w.hasLapsed(); got != tt.want {
			t.Errorf("%s: lapsed %v, want %v", tt.name, got, tt.want)
		}
	}
}
