package scenario

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/e2e/demo/guide"
)

// The commands of docs/tutorials/first-canary.md that drive the canary are exactly those of the demo.
func TestDemoRunsGuideCommands(t *testing.T) {
	t.Parallel()
	var page strings.Builder
	for _, name := range []string{"tutorials/first-canary.md", "how-to/without-keda.md"} {
		text, err := os.ReadFile("../../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		page.Write(text)
	}
	lines := slices.Clone(commands)
	for _, byHand := range []bool{false, true} {
		for _, args := range (guide.Guide{Manual: byHand}).Commands() {
			lines = append(lines, strings.Join(args, " "))
		}
	}
	run := strings.NewReplacer("repo/", "", `'`, "").Replace(strings.Join(lines, "\n"))
	matches := 0
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(page.String(), -1) {
		for line := range strings.Lines(block[1]) {
			if strings.HasPrefix(line, "kubectl http-canary") {
				continue // run by test/cli
			}
			matches++
			if !slices.Contains(strings.Split(run, "\n"), strings.ReplaceAll(strings.TrimSpace(line), `'`, "")) {
				t.Errorf("the demo does not run %q, but\n%s", strings.TrimSpace(line), run)
			}
		}
	}
	if matches < 6 {
		t.Errorf("the guide has only %d commands of the demo", matches)
	}
}
