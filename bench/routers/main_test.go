package main

import (
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
				"kedify/http               10 workers: p50  2 ms, bare write 1.9 ms  1.04   at most 1.15   ok",
				"argoproj-labs/gatewayAPI  rate                                      0.70   at least 0.50  ok",
			},
			"",
		},
		"one is missed": {
			[]string{`{"plugin": "kedify/http", "limits": [{"name": "p50", "value": 1.2, "limit": 1.15}]}`},
			[]string{"1.20   at most 1.15  MISSED"},
			"kedify/http: p50 is 1.20, at most 1.15 is allowed",
		},
		"something else": {[]string{`{"plugin": "kedify/http"}`}, nil, "no plugin or no limits"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var files []string
			for _, content := range test.files {
				file := filepath.Join(t.TempDir(), "results.json")
				if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
				files = append(files, file)
			}
			var out strings.Builder
			err := run(files, &out)
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
