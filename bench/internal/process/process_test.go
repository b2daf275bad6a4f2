package process_test

import (
	"errors"
	"os"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/process"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

func TestUsageOfThisProcess(t *testing.T) {
	t.Parallel()
	folder, err := process.Find(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	memory, err := folder.Memory()
	if err != nil || memory.Anonymous <= 0 || memory.Resident < memory.Anonymous {
		t.Errorf("memory is %+v, %v", memory, err)
	}
	before, err := folder.CPU()
	if err != nil {
		t.Fatal(err)
	}
	// The kernel updates a running thread's time at its clock ticks.
	await.True(t, "the processor time to grow", func() bool {
		after, err := folder.CPU()
		return err == nil && after > before
	})
	main, err := folder.MainThreadCPU()
	if err != nil || main <= 0 {
		t.Errorf("the main thread has %v, %v", main, err)
	}
	await.True(t, "all threads to have at least the main thread's time", func() bool {
		all, err := folder.CPU()
		return err == nil && all >= main
	})
}

func TestMissingProcess(t *testing.T) {
	t.Parallel()
	if _, err := process.Find(1 << 30); !errors.Is(err, process.ErrNoField) {
		t.Errorf("the error is %v", err)
	}
}
