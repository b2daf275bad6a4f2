package build

import (
	"slices"
	"testing"
)

func TestCompilerEnv(t *testing.T) {
	tests := []struct {
		name       string
		memory     uint64
		processors int
		want       []string
	}{
		{"a workstation", 64 << 30, 8, []string{"CGO_ENABLED=0", "GOGC=800", "GOMEMLIMIT=2147483648"}},
		{"many processors share little", 16 << 30, 16, []string{"CGO_ENABLED=0", "GOGC=200"}},
		{"a small laptop", 4 << 30, 2, []string{"CGO_ENABLED=0", "GOGC=200"}},
		{"nothing is known", 0, 2, []string{"CGO_ENABLED=0", "GOGC=200"}},
	}
	for _, tt := range tests {
		if got := compilerEnv(tt.memory, tt.processors); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
