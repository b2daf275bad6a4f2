package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spf13/cobra"
)

// withoutServer are the commands that send no request.
func withoutServer() []string { return []string{"explain", "help", "completion"} }

// silentServer returns the kubeconfig of an API server that answers the first requests with an empty object, and the
// others never.
func silentServer(t *testing.T, answers int32) string {
	t.Helper()
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, request *http.Request) {
		if requests.Add(1) > answers {
			<-request.Context().Done()
			return
		}
		out.Header().Set("Content-Type", "application/json")
		_, _ = out.Write([]byte("{}")) // The command fails without it.
	}))
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	content := `{"apiVersion": "v1", "kind": "Config", "current-context": "x",
		"clusters": [{"name": "x", "cluster": {"server": "` + server.URL + `"}}],
		"contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}], "users": [{"name": "x"}]}`
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// commandLines are command lines that send requests.
func commandLines() []string {
	return []string{
		"adopt shop", "cleanup", "cleanup --apply", "dashboard", "dashboard shop", "doctor", "doctor --pre", "doctor --wait",
		"install --from=https://example.com", "list", "list --watch", "split shop", "split shop -o json", "split shop --watch",
		"split shop --sent", "status shop", "status shop --for=ready", "status shop --watch", "status shop --watch --sent",
		"status httpscaledobject/shop", "status shop -o json", "support-bundle --dry-run", "try --yes --image=x",
		"uninstall", "uninstall --dry-run", "version",
	}
}

// TestEveryCommandHonorsItsTimeout: an API server that does not answer does not block a command. A command that does not
// end hangs this test.
func TestEveryCommandHonorsItsTimeout(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "kubectl"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder)
	for _, answers := range []int32{0, 1, 3} {
		for _, line := range commandLines() {
			if answers > 0 && strings.Contains(line, "--watch") {
				continue // A watch continues after its first reading.
			}
			//testbounds:allow the server never answers: the command fails after this time at any speed
			args := append(strings.Fields(line), "--timeout=20ms", "--kubeconfig="+silentServer(t, answers))
			_, problems, code := execute(t, args...)
			if code != exitFailed && answers == 0 {
				t.Errorf("%s: exit code %d, %s", line, code, problems)
			}
		}
	}
}

// TestEveryCommandHasATimeout: a new command with requests has to have the flag, and a command line above.
func TestEveryCommandHasATimeout(t *testing.T) {
	t.Parallel()
	for _, command := range newCommand().Commands() {
		if slices.Contains(withoutServer(), command.Name()) {
			continue
		}
		if command.Flags().Lookup("timeout") == nil {
			t.Errorf("%s has no flag --timeout", command.Name())
		}
		if !slices.ContainsFunc(commandLines(), func(line string) bool { return isOf(line, command) }) {
			t.Errorf("%s: no test that it honors --timeout", command.Name())
		}
	}
}

// isOf reports whether a command line is one of a command.
func isOf(line string, command *cobra.Command) bool { return strings.Fields(line)[0] == command.Name() }
