package walk_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/localcluster/cleanvm/walk"
)

func TestTranscript(t *testing.T) {
	const printed = "one\r\n\x1b[32mgreen\x1b[0m\r\n1 %\r2 %\r\n\x1b]9;cleanvm 0\x07$ "
	for name, c := range map[string]struct {
		live bool
		want string
	}{
		"file": {want: "  dev│ one\n  dev│ green\n  dev│ 2 %\n"},
		"terminal": {
			live: true, want: "  dev│ one\n  dev│ \x1b[32mgreen\x1b[0m\n  dev│ 1 %\r  dev│ 2 %\n  dev│ \x1b]9;cleanvm 0\x07$ ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out, raw strings.Builder
			transcript := walk.NewTranscript(&out, &raw, c.live)
			if _, err := transcript.Write([]byte(printed)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, out.String()); diff != "" {
				t.Errorf("shown (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(printed, raw.String()); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"one", "green", "2 %"}, transcript.Tail()); diff != "" {
				t.Errorf("tail (-want +got):\n%s", diff)
			}
		})
	}
}
