package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
)

// ownPages returns the text of the pages about the kubectl plugin.
func ownPages(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	for _, name := range []string{"cli.md", "cli-install.md"} {
		page, err := os.ReadFile(filepath.Join("../../docs/reference", name))
		if err != nil {
			t.Fatal(err)
		}
		text.Write(page)
	}
	return text.String()
}

// TestDocumentedCommandsRun runs every command in the sh blocks of the plugin's own pages on a healthy installation.
func TestDocumentedCommandsRun(t *testing.T) {
	commands := 0
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(ownPages(t), -1) {
		for line := range strings.Lines(block[1]) {
			args, ok := strings.CutPrefix(strings.TrimSpace(line), "kubectl http-canary ")
			if !ok {
				t.Errorf("%q is no command of the plugin", line)
				continue
			}
			commands++
			if got := run(t, apiserver.AdminToken, strings.Fields(args)...); got.code != 0 || got.out == "" {
				t.Errorf("%s: exit code %d: %s%s", line, got.code, got.out, got.err)
			}
		}
	}
	if commands < 5 {
		t.Errorf("the page has only %d commands", commands)
	}
}

func TestExitCodes(t *testing.T) {
	for args, want := range map[string]int{
		"doctor --colour":                       2,
		"doctor now":                            2,
		"doctor -o xml":                         2,
		"explain":                               0,
		"explain Nothing":                       2,
		"version --client":                      0,
		"list -A":                               0,
		"status shop -n shop --for=ready":       0,
		"--version":                             0,
		"doctor --help":                         0,
		"":                                      0,
		"status":                                2,
		"status a b":                            2,
		"status shop -n shop -w -o yaml":        2,
		"status shop -n nowhere":                1,
		"doctor --server=https://127.0.0.1:1":   1,
		"try":                                   2,
		"try now":                               2,
		"try --router=nginx":                    2,
		"try --router=argoproj-labs/gatewayAPI": 2,
		"try --gateway=a/b":                     2,
		"try --weight=100 --image=x":            2,
		"try --image=x --router=argoproj-labs/gatewayAPI --gateway=nowhere/gate": 1,
		"doctor --kubeconfig=/nowhere":                                           1,
	} {
		got := run(t, apiserver.AdminToken, strings.Fields(args)...)
		if got.code != want {
			t.Errorf("%q: exit code %d, want %d: %s%s", args, got.code, want, got.out, got.err)
		}
		if want != 0 && !strings.HasPrefix(got.err, "kubectl http-canary: ") {
			t.Errorf("%q: error output %q", args, got.err)
		}
	}
}

// TestCompletion: kubectl runs kubectl_complete-http_canary with the arguments; the last line is the shell directive.
func TestCompletion(t *testing.T) {
	link := filepath.Join(shared.folder, "kubectl_complete-http_canary")
	if err := os.Symlink("kubectl-http_canary", link); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		typed []string
		want  string
	}{
		{[]string{"do"}, "doctor\tCheck an installation, a cluster before it, or manifests for problems\n:4\n"},
		{[]string{"doctor", "-o", ""}, "table\nwide\njson\nyaml\nname\n:4\n"},
		{[]string{"status", "--namespace", "web", ""}, "web\n:4\n"},
		{[]string{"status", "--namespace", "shop", "httpscaledobject/"}, "httpscaledobject/shop\n:4\n"},
	} {
		command := exec.CommandContext(t.Context(), link, test.typed...)
		command.Env = append(os.Environ(), "KUBECONFIG="+shared.kubeconfig(apiserver.AdminToken))
		got, err := command.Output()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, string(got)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", test.typed, diff)
		}
	}
}
