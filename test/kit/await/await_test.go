package await

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestWithin(t *testing.T) {
	never := func() bool { return false }
	over := errors.New("the run is over")
	tests := []struct {
		name string
		// ready is how long it takes, -1 for ever; ended is when the context ends.
		ready, ended time.Duration
		wantErr      error
		wantMessage  string
		duration     time.Duration
	}{
		{name: "at once", duration: 0},
		{name: "later", ready: 55 * time.Millisecond, duration: 60 * time.Millisecond},
		{
			name: "too late", ready: -1, wantErr: ErrNotReached, wantMessage: "a pod: not reached in time (1s); instead: none",
			duration: time.Second,
		},
		{
			name: "cut short", ready: -1, ended: 100 * time.Millisecond, duration: 100 * time.Millisecond,
			wantErr: over, wantMessage: "waiting for a pod: the run is over; so far: none",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if tt.ended > 0 {
					time.AfterFunc(tt.ended, func() { cancel(over) })
				}
				began := time.Now()
				ready := func() bool { return time.Since(began) >= tt.ready }
				if tt.ready < 0 {
					ready = never
				}
				err := Within(ctx, "a pod", time.Second, ready, func() string { return "none" })
				if duration := time.Since(began); duration != tt.duration {
					t.Errorf("it took %s, want %s", duration, tt.duration)
				}
				if !errors.Is(err, tt.wantErr) || (err != nil && err.Error() != tt.wantMessage) {
					t.Errorf("error = %v, want %q", err, tt.wantMessage)
				}
			})
		})
	}
}

func TestPatience(t *testing.T) {
	tests := []struct {
		value string
		want  time.Duration
		fails string
	}{
		{value: "", want: defaultPatience},
		{value: "2m", want: 2 * time.Minute},
		{value: "1h", want: time.Hour},
		{value: "119s", fails: "TEST_PATIENCE: 1m59s is below the minimum of 2m0s"},
		{value: "-5m", fails: "TEST_PATIENCE: -5m0s is below the minimum of 2m0s"},
		{value: "5", fails: `TEST_PATIENCE: time: missing unit in duration "5": use a duration such as 5m`},
	}
	for _, tt := range tests {
		t.Run(tt.value, func(t *testing.T) {
			patience, err := patienceOf(tt.value)
			if patience != tt.want {
				t.Errorf("patience = %s, want %s", patience, tt.want)
			}
			if (err != nil) != (tt.fails != "") || err != nil && err.Error() != tt.fails {
				t.Errorf("error = %v, want %q", err, tt.fails)
			}
		})
	}
}

func TestPatienceOfAMissingCondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		err := Until(t.Context(), "a pod", func() bool { return false }, func() string { return "none" })
		if duration := time.Since(began); !errors.Is(err, ErrNotReached) || duration != Patience() {
			t.Errorf("error = %v after %s, want ErrNotReached after %s", err, duration, Patience())
		}
	})
}
