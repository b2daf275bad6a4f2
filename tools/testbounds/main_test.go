package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sleeps is a file of a package with a sleep.
func sleeps(name string) string {
	return "package " + name + "\nimport (\"testing\"; \"time\")\nfunc TestA(t *testing.T) { time.Sleep(5) }\n"
}

// checkout writes a checkout, and returns its folder.
func checkout(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	files["go.mod"], files["localcluster/go.mod"] = "module example.com/m\n", "module example.com/m/localcluster\n"
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestScope puts a sleep into each of many files.
func TestScope(t *testing.T) {
	root := checkout(t, map[string]string{
		"a/x_test.go": sleeps("a_test"), "bench2/b_test.go": sleeps("bench2"), "e2e/testbed/testbed.go": sleeps("testbed"),
		"e2e/cmd/demo/a_test.go": sleeps("main"), "e2e/demo/demo.go": sleeps("demo"),
		"e2e/demo/a_test.go": sleeps("demo_test"),
		"test/kit/kit.go":    sleeps("testkit"), "test/kit/await/b.go": sleeps("await"),
		"localcluster/a_test.go": sleeps("localcluster"), "localcluster/test/x/x.go": sleeps("x"),
		// These are not inspected.
		"product/b.go": sleeps("product"), "bench/a_test.go": sleeps("bench"), "test/kit/stall/a_test.go": sleeps("stall"),
		"e2e/cmd/demo/main.go":            "package main\nimport \"time\"\nfunc main() { time.Sleep(5) }\n",
		"localcluster/install/install.go": sleeps("install"), "a/testdata/a_test.go": sleeps("a"),
		"tools/x/go.mod": "module x\n", "tools/x/a_test.go": sleeps("x"),
		"speed/a_test.go": "//go:build timing\n" + sleeps("speed"),
	})
	p, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	var found strings.Builder
	write(&found, p.inspect())
	const line = ":3: sleep: time.Sleep waits for a fixed time\n"
	want := strings.Join([]string{
		"a/x_test.go", "bench2/b_test.go", "e2e/cmd/demo/a_test.go", "e2e/demo/a_test.go", "e2e/demo/demo.go",
		"e2e/testbed/testbed.go", "localcluster/a_test.go", "localcluster/test/x/x.go", "test/kit/await/b.go",
		"test/kit/kit.go", "10 upper bounds on wall-clock time: 0 elapsed, 0 limit, 10 sleep, 0 comment\n",
	}, line)
	if found.String() != want {
		t.Errorf("found:\n%s\nwant:\n%s", found.String(), want)
	}
}

// TestVariants uses helpers of a package with tests from another package.
func TestVariants(t *testing.T) {
	root := checkout(t, map[string]string{
		"test/kit/kit.go": `package testkit
import ("context"; "testing"; "time")
func Eventually(t *testing.T, limit time.Duration) { context.WithTimeout(t.Context(), limit) }
`,
		"test/kit/kit_test.go": `package testkit
import ("testing"; "time")
func TestA(t *testing.T) { Eventually(t, time.Second) }
`,
		"a/a_test.go": `package a_test
import ("testing"; "time"; "example.com/m/test/kit")
func TestA(t *testing.T) { testkit.Eventually(t, time.Second) }
`,
		"localcluster/a_test.go": sleeps("localcluster"),
	})
	p, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, each := range p.inspect() {
		found = append(found, each.file+" "+each.rule)
	}
	want := []string{"a/a_test.go limit", "localcluster/a_test.go sleep", "test/kit/kit_test.go limit"}
	if !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
}

// TestBroken loads files that do not compile.
func TestBroken(t *testing.T) {
	for _, source := range []string{"package", "package a\nvar a int = true\n"} {
		root := checkout(t, map[string]string{"a/a_test.go": source, "localcluster/a.go": "package a\n"})
		if _, err := load(root); err == nil {
			t.Errorf("%q: no error", source)
		}
	}
}
