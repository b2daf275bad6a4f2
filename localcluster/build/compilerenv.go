package build

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// CompilerEnv returns the environment of `go build`. A compiler lives for seconds and needs fewer garbage collections
// than a server. With enough memory that saves an eighth of the processor time. The Makefile does the same.
func CompilerEnv() []string {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return compilerEnv(0, runtime.NumCPU())
	}
	return compilerEnv(info.Totalram*uint64(info.Unit), runtime.NumCPU())
}

// compilerEnv returns the environment for a machine with the given bytes of memory and number of processors. Each
// compiler may use a quarter of the memory per processor.
func compilerEnv(memory uint64, processors int) []string {
	const enough = 4 << 30
	share := memory / uint64(max(processors, 1))
	if share < enough {
		return []string{"CGO_ENABLED=0", "GOGC=200"}
	}
	return []string{"CGO_ENABLED=0", "GOGC=800", fmt.Sprintf("GOMEMLIMIT=%d", share/4)}
}
