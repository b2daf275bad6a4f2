package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A command that failed because the API server was busy is repeated; an invalid one is not.
func TestKubectlRetries(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		message string
		tries   int
		fails   bool
	}{
		"the server is busy once": {
			message: "Error from server (Timeout): request did not complete within requested timeout", tries: 2,
		},
		"the manifest is wrong": {
			message: "Error from server (Invalid): spec.replicas: Invalid value", tries: 1, fails: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			program, tries := filepath.Join(dir, "kubectl"), filepath.Join(dir, "tries")
			script := "#!/bin/sh\necho try >> " + tries + "\n[ $(wc -l < " + tries + ") -gt 1 ] || { echo '" + tt.message +
				"' >&2; exit 1; }\n"
			if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
			err := Kubectl{Program: program}.Run(t.Context(), []string{"apply"}, time.Hour)
			if (err != nil) != tt.fails || tt.fails && !strings.Contains(err.Error(), tt.message) {
				t.Errorf("error %v", err)
			}
			raw, err := os.ReadFile(tries)
			if got := strings.Count(string(raw), "try"); err != nil || got != tt.tries {
				t.Errorf("%d tries, %v; want %d", got, err, tt.tries)
			}
		})
	}
}
