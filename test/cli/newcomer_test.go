package cli_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// pageStep is a command of a page and the output that the page shows.
type pageStep struct {
	heading, command, output string
}

// pageSteps returns the commands of a page: each sh block and the text block that follows it.
func pageSteps(t *testing.T, name string) []pageStep {
	t.Helper()
	var steps []pageStep
	for _, section := range strings.Split(readFile(t, name), "\n## ")[1:] {
		heading, _, _ := strings.Cut(section, "\n")
		for _, match := range regexp.MustCompile("(?s)```sh\n(.*?)```\n\n```text\n(.*?)```").FindAllStringSubmatch(section, -1) {
			steps = append(steps, pageStep{heading, match[1], match[2]})
		}
	}
	return steps
}

// matches reports whether an output is the one of a page, in which … stands for any text.
func matches(page, output string) bool {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(page)), "…", "(?s:.*)")
	return regexp.MustCompile("^" + pattern + "$").MatchString(strings.TrimSpace(output))
}

// TestFindAndFixPage runs the commands of the tutorial in their order: the installation on a cluster without one, the
// others on a cluster with a canary in progress. A command that only reads is repeated, because the API server applies
// changed roles with a delay.
func TestFindAndFixPage(t *testing.T) {
	bare := newBareCluster(t)
	defer func() {
		err := apiserver.ApplyFiles(context.WithoutCancel(t.Context()), shared.admin, "", manifests+"argo-rollouts/rbac.yaml")
		if err != nil {
			t.Error(err)
		}
	}()
	steps := pageSteps(t, "../../docs/tutorials/find-and-fix.md")
	if len(steps) != 9 {
		t.Errorf("the page has %d commands with an output, want 9", len(steps))
	}
	for _, step := range steps {
		kubeconfig := shared.kubeconfig(apiserver.AdminToken)
		if strings.HasPrefix(step.heading, "1.") || strings.HasPrefix(step.heading, "2.") {
			kubeconfig = bare.kubeconfig(apiserver.AdminToken)
		}
		output := ""
		execute := func() bool {
			command := exec.CommandContext(t.Context(), "bash", "-c", step.command)
			command.Dir = "../.."
			command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "LC_ALL=C.UTF-8",
				"PATH="+shared.folder+":"+filepath.Dir(os.Getenv("KUBECTL_BIN"))+":"+os.Getenv("PATH"))
			text, _ := command.CombinedOutput() // doctor fails if it finds an error
			output = string(text)
			return matches(step.output, output)
		}
		if !strings.Contains(step.command, "http-canary doctor") {
			if !execute() {
				t.Fatalf("%s: the output of %sis\n%s", step.heading, step.command, output)
			}
			continue
		}
		await.Described(t, step.command, execute, func() string { return output })
	}
}
