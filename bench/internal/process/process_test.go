package process_test

import (
	"errors"
	"os"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/process"
)

func TestOfThisProcess(t *testing.T) {
	t.Parallel()
	own, err := process.Find(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	memory, err := own.Memory()
	if err != nil || memory.Anonymous <= 0 || memory.Resident < memory.Anonymous {
		t.Errorf("memory is %+v, %v", memory, err)
	}
	before, err := own.CPU()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10_000_000 {
		_ = i * i
	}
	after, err := own.CPU()
	if err != nil || after <= before {
		t.Errorf("processor time goes from %v to %v, %v", before, after, err)
	}
	if one, err := own.MainThreadCPU(); err != nil || one <= 0 || one > after {
		t.Errorf("the main thread has %v of %v, %v", one, after, err)
	}
}

func TestOfNoProcess(t *testing.T) {
	t.Parallel()
	if _, err := process.Find(1 << 30); !errors.Is(err, process.ErrNoField) {
		t.Errorf("the error is %v", err)
	}
}
