package build

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// CompilerEnv is the environment of `go build`. A compiler lives for seconds and need not collect garbage
// as often as a server: where there is memory for it, an eighth of the processor time is saved. The
// Makefile does the same for what it compiles.
func CompilerEnv() []string {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return compilerEnv(0, runtime.NumCPU())
	}
	return compilerEnv(info.Totalram*uint64(info.Unit), runtime.NumCPU())
}

// compilerEnv is for a machine with so many bytes of memory and processors: each compiler may take a fourth
// of its share of the memory.
func compilerEnv(memory uint64, processors int) []string {
	const enough = 4 << 30
	share := memory / uint64(max(processors, 1))
	if share < enough {
		return []string{"CGO_ENABLED=0", "GOGC=200"}
	}
	return []string{"CGO_ENABLED=0", "GOGC=800", fmt.Sprintf("GOMEMLIMIT=%d", share/4)}
}
