package kube

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestRetry(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Group: "http.keda.sh", Resource: "httpscaledobjects"}
	conflict := apierrors.NewConflict(resource, "web", errors.New("modified"))
	busy := apierrors.NewServiceUnavailable("starting")
	asked := apierrors.NewTooManyRequests("slow down", 2)
	forbidden := apierrors.NewForbidden(resource, "web", errors.New("no rule"))
	starting := apierrors.NewServiceUnavailable("not all paths are installed")
	starting.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 5}
	away := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	tests := map[string]struct {
		errs     []error // one for each attempt, the last one for all that follow
		want     error
		attempts int
		low, up  time.Duration // the bounds of the time it takes
	}{
		"success":           {[]error{nil}, nil, 1, 0, 0},
		"an error for good": {[]error{forbidden}, forbidden, 1, 0, 0},
		"one fault":         {[]error{busy, nil}, nil, 2, 20 * time.Millisecond, 30 * time.Millisecond},
		"faults without end": {
			[]error{busy},
			busy, 1 + maxFaults, 140 * time.Millisecond,
			210 * time.Millisecond,
		},
		"a wait that was asked for": {[]error{asked, nil}, nil, 2, 2 * time.Second, 2 * time.Second},
		"an API server that comes back": {
			[]error{away, away, away, away, away, away, nil},
			nil, 7, 6 * awayPause,
			6 * awayPause,
		},
		"an API server that does not": {[]error{away}, away, 0, 9 * time.Second, 9 * time.Second},
		"an API server that starts": {
			[]error{away, starting, starting, starting, starting, nil},
			nil, 6,
			5 * awayPause, 5 * awayPause,
		},
		"one that knows no rules yet": {
			[]error{starting, forbidden, forbidden, nil},
			nil, 4, 3 * awayPause,
			3 * awayPause,
		},
		"one that knows its rules": {[]error{away, forbidden}, forbidden, 0, startTime, startTime + 2*awayPause},
		"conflicts": {
			[]error{conflict, conflict, conflict, conflict, conflict, nil},
			nil, 6,
			25 * time.Millisecond, 50 * time.Millisecond,
		},
		"a wait beyond the deadline": {
			[]error{apierrors.NewTooManyRequests("later", 60)},
			nil, 1, 9 * time.Second,
			9 * time.Second,
		},
		"conflicts up to the deadline": {[]error{conflict}, conflict, 0, 9 * time.Second, 9 * time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
				defer cancel()
				start, attempts := time.Now(), 0
				err := Retry(ctx, func(context.Context) error {
					attempts++
					return test.errs[min(attempts, len(test.errs))-1]
				})
				if test.want != nil && !errors.Is(err, test.want) ||
					err == nil != (test.errs[len(test.errs)-1] == nil) {
					t.Errorf("error is %v, want %v", err, test.want)
				}
				if test.attempts > 0 && attempts != test.attempts {
					t.Errorf("%d attempts, want %d", attempts, test.attempts)
				}
				if took := time.Since(start); took < test.low || took > test.up {
					t.Errorf("took %v, want %v to %v", took, test.low, test.up)
				}
			})
		})
	}
}
