package host

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"
)

func TestRemovalIsRepeatedUntilTheDirectoryIsEmpty(t *testing.T) {
	notEmpty := &fs.PathError{Op: "unlinkat", Path: "clusters/a", Err: unix.ENOTEMPTY}
	denied := &fs.PathError{Op: "unlinkat", Path: "clusters/a", Err: unix.EPERM}
	always := make([]error, 1000)
	for i := range always {
		always[i] = notEmpty
	}
	tests := []struct {
		name    string
		results []error
		want    error
		calls   int // 0: more than one
	}{
		{"the first removal succeeds", []error{nil}, nil, 1},
		{"a supervisor adds files during two removals", []error{notEmpty, notEmpty, nil}, nil, 3},
		{"another error", []error{notEmpty, denied, nil}, unix.EPERM, 2},
		{"files are added without end", always, unix.ENOTEMPTY, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				err := untilEmpty(context.Background(), func() error {
					calls++
					return tt.results[calls-1]
				})
				if !errors.Is(err, tt.want) || tt.want == nil && err != nil {
					t.Errorf("the error is %v, want %v", err, tt.want)
				}
				if calls != tt.calls && (tt.calls != 0 || calls < 2) {
					t.Errorf("%d removals, want %d", calls, tt.calls)
				}
			})
		})
	}
}
