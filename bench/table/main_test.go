package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOneTable(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files []string // their content
		rows  []string
		wrong string
	}{
		"all is kept": {
			[]string{
				`{"plugin": "kedify/http", "limits": [{"name": "10 workers: p50", "value": 1.04, "limit": 1.15, "of": "2 ms, bare write 1.9 ms"}]}`,
				`{"plugin": "argoproj-labs/gatewayAPI", "limits": [{"name": "rate", "value": 0.7, "limit": 0.5, "atLeast": true}]}`,
			},
			[]string{
				"bench-0    10 workers: p50  2 ms, bare write 1.9 ms  1.04   at most 1.15   ok",
				"bench-1    rate                                      0.70   at least 0.50  ok",
			},
			"",
		},
		"one is missed": {
			[]string{`{"plugin": "kedify/http", "limits": [{"name": "p50", "value": 1.2, "limit": 1.15}]}`},
			[]string{"1.20   at most 1.15  MISSED"},
			"bench-0: p50 is 1.20, at most 1.15 is allowed",
		},
		"one has failed": {
			[]string{"", `{"limits": [{"name": "rate", "value": 0.7, "limit": 0.5, "atLeast": true}]}`},
			[]string{"bench-0    no results", "0.70   at least 0.50  ok"},
			"bench-0: no results",
		},
		"something else": {[]string{`{"plugin": "kedify/http"}`}, nil, "no limits"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var files []string
			for i, content := range test.files {
				file := filepath.Join(t.TempDir(), "results.json")
				if content == "" {
					files = append(files, fmt.Sprintf("bench-%d=%s", i, file)) // The file does not exist.
					continue
				}
				if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
				files = append(files, fmt.Sprintf("bench-%d=%s", i, file))
			}
			var out strings.Builder
			err := run(files, &out, io.Discard)
			if (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("the error is %v, want %q", err, test.wrong)
			}
			for _, row := range test.rows {
				if !strings.Contains(out.String(), row) {
					t.Errorf("there is no %q in\n%s", row, out.String())
				}
			}
		})
	}
}

// TestFolder writes the table as JSON, and an image.
func TestFolder(t *testing.T) {
	t.Parallel()
	file, folder := filepath.Join(t.TempDir(), "results.json"), t.TempDir()
	const content = `{"lines": {"axis": "5 minutes", "series": [{"label": "MB", "values": [1, 2]}]}, "limits": [{"name": "p50", "value": 1.2, "limit": 1.15}, {"name": "lost", "value": 0, "limit": 0}]}`
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	err := run([]string{"--folder=" + folder, "request=" + file}, io.Discard, io.Discard)
	if err == nil || err.Error() != "request: p50 is 1.20, at most 1.15 is allowed" {
		t.Errorf("the error is %v", err)
	}
	for name, want := range map[string]string{
		"results.json": "\"benchmark\": \"request\",", "request.svg": ">1.20 (≤ 1.15)</text>", "request-lines.svg": ">5 minutes</text>",
	} {
		if text, err := os.ReadFile(filepath.Join(folder, name)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, no %s in\n%s", name, err, want, text)
		}
	}
	if err := run([]string{file}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "want NAME=FILE") {
		t.Errorf("without a name: %v", err)
	}
}
