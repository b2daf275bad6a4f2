package install

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pages are the tested pages in docs/how-to.
var pages = []string{"install.md", "install-plugins.md", "uninstall.md"}

// page contains the blocks of these pages by their heading.
type page map[string][]block

// block is one fenced block.
type block struct{ language, text string }

// readPage reads the pages.
func readPage(t *testing.T, repo string) page {
	t.Helper()
	out := page{}
	tokens := regexp.MustCompile("(?ms)^#+ ([^\n]+)$|^```(\\w*)\n(.*?)^```$")
	for _, name := range pages {
		raw, err := os.ReadFile(filepath.Join(repo, "docs", "how-to", name))
		if err != nil {
			t.Fatal(err)
		}
		heading := ""
		for _, match := range tokens.FindAllStringSubmatch(string(raw), -1) {
			if match[1] != "" {
				heading = match[1]
				continue
			}
			out[heading] = append(out[heading], block{match[2], match[3]})
		}
	}
	return out
}

// block returns the n-th block of a language below a heading, which must exist.
func (p page) block(t *testing.T, heading, language string, n int) string {
	t.Helper()
	for _, b := range p[heading] {
		if b.language != language {
			continue
		}
		if n == 0 {
			return b.text
		}
		n--
	}
	t.Fatalf("docs/how-to/install*.md and uninstall.md have no such block of %s below %q", language, heading)
	return ""
}

// commands returns the number of commands in a script.
func commands(script string) int {
	count := 0
	for line := range strings.Lines(script) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") &&
			!regexp.MustCompile(`^[A-Z]+=`).MatchString(line) {
			count++
		}
	}
	return count
}
