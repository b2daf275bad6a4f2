package guide

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/e2e/tutorial"
)

// TestTutorial runs the commands of docs/tutorials/first-canary.md and compares their output with the page. test/cli
// covers the commands of the kubectl plugin.
func TestTutorial(t *testing.T) {
	r := launch(t)
	r.dir = r.repo
	page, err := os.ReadFile(filepath.Join(r.repo, "docs", "tutorials", "first-canary.md"))
	if err != nil {
		t.Fatal(err)
	}
	timeout := regexp.MustCompile(`--timeout=\d+s`)
	ingress := "INGRESS=" + r.Addresses[provider.IngressAddress] + "\n"
	for _, step := range tutorial.Read(string(page), "Next") {
		if strings.HasPrefix(step.Commands, "kubectl http-canary") || strings.HasPrefix(step.Commands, "INGRESS=") {
			continue
		}
		printed := r.runLine(t, ingress+timeout.ReplaceAllLiteralString(step.Commands, testbed.WaitTimeout()))
		if err := step.Compare(printed); err != nil {
			t.Errorf("$ %s%v", step.Commands, err)
		}
	}
}
