package server_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

func TestRecovered(t *testing.T) {
	t.Parallel()
	failure := errors.New("no panic")
	if err := server.Recovered(func() error { return failure }); !errors.Is(err, failure) {
		t.Errorf("error %v", err)
	}
	var panicked *server.PanicError
	err := server.Recovered(func() error { panic("a bug") })
	if !errors.As(err, &panicked) || err.Error() != "panic: a bug" ||
		!strings.Contains(string(panicked.Stack), "TestRecovered") {
		t.Errorf("error %v", err)
	}
}
