// Package docs tests statements of the pages about this repository: links, make targets, paths, generated tables,
// metrics, alerts, and the binaries of `make build`.
package docs

import (
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the path of the repository's root.
const root = "../.."

// documents returns every Markdown file of the repository by its path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	tree := os.DirFS(root)
	err := fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		raw, err := fs.ReadFile(tree, path)
		out[path] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 5 {
		t.Fatalf("found only %d pages", len(out))
	}
	return out
}

func TestLinksResolve(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`)
	for path, text := range documents(t) {
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(path), match[1])); err != nil {
				t.Errorf("%s links to %s, which does not exist", path, match[1])
			}
		}
	}
}

// makeTargets returns the targets of the Makefile and of the files that it includes.
func makeTargets(t *testing.T) []string {
	t.Helper()
	included, err := filepath.Glob(filepath.Join(root, "make", "*.mk"))
	if err != nil || len(included) == 0 {
		t.Fatal("make/ contains no files ", err)
	}
	var targets []string
	for _, file := range append(included, filepath.Join(root, "Makefile")) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllStringSubmatch(string(text), -1) {
			targets = append(targets, match[1])
		}
	}
	return targets
}

func TestMakeTargetsExist(t *testing.T) {
	targets := makeTargets(t)
	named := 0
	for path, text := range documents(t) {
		for _, match := range regexp.MustCompile("(?m)(?:`|^)make ([a-z][a-z0-9-]*)").FindAllStringSubmatch(text, -1) {
			named++
			if !slices.Contains(targets, match[1]) {
				t.Errorf("%s names `make %s`, which the Makefile does not have", path, match[1])
			}
		}
	}
	if named == 0 {
		t.Error("no document names a make target")
	}
}

func TestManifestsInCommandsExist(t *testing.T) {
	manifest := regexp.MustCompile(`(?:config|examples)/[\w./-]+`)
	for path, text := range documents(t) {
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(strings.TrimSpace(line), "kubectl") {
				continue
			}
			for _, name := range manifest.FindAllString(line, -1) {
				if _, err := os.Stat(filepath.Join(root, name)); err != nil {
					t.Errorf("%s: %q names %s, which does not exist", path, strings.TrimSpace(line), name)
				}
			}
		}
	}
}

func TestBuildCreatesStaticLinuxBinaries(t *testing.T) {
	folder := t.TempDir()
	binaries := map[string]string{
		"PLUGIN":         filepath.Join(folder, "rollouts-plugin-kedify"),
		"GATEWAY_PLUGIN": filepath.Join(folder, "gatewayapi-plugin"),
	}
	args := []string{"-C", root, "build"}
	for variable, binary := range binaries {
		args = append(args, variable+"="+binary)
	}
	if out, err := exec.CommandContext(t.Context(), "make", args...).CombinedOutput(); err != nil {
		t.Fatalf("make build: %v\n%s", err, out)
	}
	for _, binary := range binaries {
		program, err := elf.Open(binary)
		if err != nil {
			t.Fatal(err)
		}
		defer program.Close()
		if program.Machine != elf.EM_X86_64 {
			t.Errorf("%s is built for %v, want amd64", filepath.Base(binary), program.Machine)
		}
		for _, segment := range program.Progs {
			if segment.Type == elf.PT_INTERP {
				t.Errorf("%s needs a dynamic loader: it is not static", filepath.Base(binary))
			}
		}
	}
}

// anchors returns the anchors that GitHub creates for a page's headings, and those that the page itself defines.
// Repeated headings get a numeric suffix.
func anchors(page string) map[string]bool {
	names, seen := map[string]bool{}, map[string]int{}
	for _, defined := range regexp.MustCompile(`<a id="([^"]+)"></a>`).FindAllStringSubmatch(page, -1) {
		names[defined[1]] = true
	}
	inBlock := false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			inBlock = !inBlock
		}
		heading := regexp.MustCompile(`^#+ (.+)`).FindStringSubmatch(line)
		if inBlock || heading == nil {
			continue
		}
		words := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(strings.TrimSpace(heading[1]), "$1")
		made := strings.ReplaceAll(regexp.MustCompile(`[^\p{L}\p{N}_\- ]`).ReplaceAllString(strings.ToLower(words), ""), " ",
			"-")
		if again := seen[made]; again > 0 {
			names[fmt.Sprintf("%s-%d", made, again)] = true
		}
		seen[made]++
		names[made] = true
	}
	return names
}

func TestAnchorsResolve(t *testing.T) {
	pages, looked := documents(t), 0
	for path, text := range pages {
		for _, match := range regexp.MustCompile(`\]\(([^)#\s]*)#([^)\s]+)\)`).FindAllStringSubmatch(text, -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			target := path
			if match[1] != "" {
				target = filepath.Join(filepath.Dir(path), match[1])
			}
			looked++
			if page, ok := pages[target]; ok && !anchors(page)[match[2]] {
				t.Errorf("%s links to %s#%s, and there is no such anchor", path, match[1], match[2])
			}
		}
	}
	if looked == 0 {
		t.Error("no document links to a heading")
	}
}

// TestMapLinksToEveryPage: docs/README.md links to each page, except to the records of decisions, which have
// an index of their own.
func TestMapLinksToEveryPage(t *testing.T) {
	pages := documents(t)
	for path := range pages {
		relative, ok := strings.CutPrefix(path, "docs/")
		list := "docs/README.md"
		if record, ok := strings.CutPrefix(relative, "dev/decisions/"); ok && record != "README.md" {
			relative, list = record, "docs/dev/decisions/README.md"
		}
		if ok && relative != "README.md" && !strings.Contains(pages[list], "]("+relative+")") {
			t.Errorf("%s has no link to %s", list, relative)
		}
	}
}

// TestNavigationHasEveryPage: the navigation of the site has each page once.
func TestNavigationHasEveryPage(t *testing.T) {
	navigation := text(t, "tools/site/zensical.toml")
	for path := range documents(t) {
		if relative, ok := strings.CutPrefix(path, "docs/"); ok && strings.Count(navigation, `"`+relative+`"`) != 1 {
			t.Errorf("tools/site/zensical.toml has %s %d times, want once", relative, strings.Count(navigation, `"`+relative+`"`))
		}
	}
}
