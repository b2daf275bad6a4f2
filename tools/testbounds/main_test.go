package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sleeps is a file of a package with a sleep.
func sleeps(name string) string {
	return "package " + name + "\nimport \"time\"\nfunc TestA() { time.Sleep(5) }\n"
}

// TestScope puts a sleep into each of many files.
func TestScope(t *testing.T) {
	want := []string{
		"a/x_test.go:3: sleep", "bench2/b_test.go:3: sleep", "e2e/bed/bed.go:3: sleep", "e2e/cmd/demo/a_test.go:3: sleep",
		"e2e/demo/demo.go:3: sleep", "internal/testkit/kit.go:3: sleep", "localcluster/a_test.go:3: sleep",
		"tagged/a_test.go:4: sleep", "test/kit/stall/stall.go:3: sleep",
	}
	files := map[string]string{
		"a/x_test.go": sleeps("a_test"), "bench2/b_test.go": sleeps("bench2"), "e2e/bed/bed.go": sleeps("bed"),
		"e2e/cmd/demo/a_test.go": sleeps("main"), "e2e/demo/demo.go": sleeps("demo"),
		"internal/testkit/kit.go": sleeps("testkit"),
		"localcluster/go.mod":     "module example.com/m/localcluster\n", "localcluster/a_test.go": sleeps("localcluster"),
		"test/kit/stall/stall.go": sleeps("stall"), "tagged/a_test.go": "//go:build integration\n" + sleeps("tagged"),
		// These are not judged.
		"product/b.go": sleeps("product"), "bench/a_test.go": sleeps("bench"), "e2e/cmd/demo/main.go": sleeps("main"),
		"test/kit/await/b.go": sleeps("await"), "localcluster/install/install.go": sleeps("install"),
		"tools/x/go.mod": "module x\n", "tools/x/a_test.go": sleeps("x"), "a/testdata/a_test.go": sleeps("a"),
		"speed/a_test.go": "//go:build timing\n" + sleeps("speed"),
		"speed/b_test.go": "//go:build linux && timing\n" + sleeps("speed"),
	}
	if diff := cmp.Diff(want, judged(t, checkout(files))); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func TestRun(t *testing.T) {
	const lowerBound = "package a\nimport (\"testing\"; \"time\")\n" +
		"func TestA(t *testing.T) { began := time.Now(); if time.Since(began) < 5*time.Second { t.Fail() } }\n"
	sleep := map[string]string{"a/a_test.go": sleeps("a")}
	lower := map[string]string{"a/a_test.go": lowerBound}
	const total = " upper bounds on wall-clock time: 0 elapsed, 0 limit, "
	tests := []struct {
		name          string
		files         map[string]string
		count, strict bool
		fails         bool
		want          string
	}{
		{name: "none", want: "0" + total + "0 sleep, 0 comment; lower bounds: 0\n"},
		{
			name: "one", files: sleep, fails: true,
			want: "a/a_test.go:3: sleep: time.Sleep waits for a fixed time\n" +
				"1" + total + "1 sleep, 0 comment; lower bounds: 0\n",
		},
		{name: "the number", files: sleep, count: true, fails: true, want: "1\n"},
		{name: "the number of none", files: lower, count: true, want: "0\n"},
		{name: "a lower bound", files: lower, want: "0" + total + "0 sleep, 0 comment; lower bounds: 1\n"},
		{
			name: "a lower bound, strictly", files: lower, strict: true, fails: true,
			want: "a/a_test.go:3: lower: the test fails when it takes less than 5 * time.Second by its own clock\n" +
				"0" + total + "0 sleep, 0 comment; lower bounds: 1\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			failing, err := run(&out, checkout(tt.files), tt.count, tt.strict)
			if err != nil || failing != tt.fails {
				t.Errorf("run = %v, %v; want %v", failing, err, tt.fails)
			}
			if diff := cmp.Diff(tt.want, out.String()); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBroken(t *testing.T) {
	tests := map[string]map[string]string{
		"no module":    {"go.mod": "go 1.26\n"},
		"broken files": {"a/a_test.go": "package"},
	}
	for name, files := range tests {
		t.Run(name, func(t *testing.T) {
			if failing, err := run(new(strings.Builder), checkout(files), false, false); err == nil {
				t.Errorf("run = %v, and no error", failing)
			}
		})
	}
}
