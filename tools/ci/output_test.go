package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFailedTests(t *testing.T) {
	const module = "github.com/kedify/argo-rollouts-plugin/"
	tests := []struct {
		name, output string
		want         []testFailure
	}{
		{
			name:   "nothing failed",
			output: "ok  \t" + module + "internal/model\t0.1s\n?   \t" + module + "api\t[no test files]\n",
		},
		{
			name: "two packages",
			output: "--- FAIL: TestA (0.10s)\n    --- FAIL: TestA/one (0.00s)\n        a_test.go:1: --- FAIL: TestNot\n" +
				"--- FAIL: TestB (0.10s)\n" +
				"FAIL\n" + "FAIL\t" + module + "test/envoy\t3.1s\nok  \t" + module + "test/xds\t1s\n" +
				"--- FAIL: TestC (0.10s)\nFAIL\n" + "FAIL\t" + module + "test/agent\t3.1s\nFAIL\n",
			want: []testFailure{{module + "test/envoy", []string{"TestA", "TestB"}}, {module + "test/agent", []string{"TestC"}}},
		},
		{
			name: "a package that does not compile, and one that panics",
			output: "FAIL\t" + module + "cmd/agent [build failed]\npanic: test timed out after 10m0s\nFAIL\t" + module +
				"test/cli\t600s\nFAIL\n",
			want: []testFailure{{Package: module + "cmd/agent"}, {Package: module + "test/cli"}},
		},
		{name: "make's own errors", output: "make: *** [Makefile:3: test] Error 1\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := failedTests(strings.NewReader(tt.output))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("failures (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBrokenInvariants(t *testing.T) {
	long := strings.Repeat("x", 1<<17)
	output := "ok\n    a_test.go:7: invariant broken: failed requests: 3 of 100\n" + long +
		"\ninvariant broken: failed requests: 3 of 100\ninvariant broken: unexpected weights: 30"
	got, err := brokenInvariants(strings.NewReader(output))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"failed requests: 3 of 100", "unexpected weights: 30"}, got); diff != "" {
		t.Errorf("invariants (-want +got):\n%s", diff)
	}
}
