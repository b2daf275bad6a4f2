package process_test

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/process"
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
	if peak, err := folder.Peak(); err != nil || float64(peak) < memory.Resident*1e6 {
		t.Errorf("the peak is %d bytes, %v, and the memory %+v", peak, err, memory)
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

// TestPeak has a process that used more memory before the peak was reset.
func TestPeak(t *testing.T) { //nolint:paralleltest // other tests of the process use memory
	folder, err := process.Find(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const size = 64 << 20
	use(size)
	before, err := folder.Peak()
	if err != nil || before < size {
		t.Fatalf("the peak is %d bytes, %v", before, err)
	}
	debug.FreeOSMemory()
	if err := folder.ResetPeak(); err != nil {
		t.Fatal(err)
	}
	if after, err := folder.Peak(); err != nil || after > before-size/2 {
		t.Errorf("after the reset, the peak is %d bytes, %v; before it was %d", after, err, before)
	}
}

// use uses memory until it returns.
func use(size int) {
	memory := bytes.Repeat([]byte{1}, size)
	runtime.KeepAlive(memory)
}

func TestMissingProcess(t *testing.T) {
	t.Parallel()
	if _, err := process.Find(1 << 30); !errors.Is(err, process.ErrNoField) {
		t.Errorf("the error is %v", err)
	}
}
