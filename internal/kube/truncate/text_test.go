package truncate_test

import (
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/kube/truncate"
)

func TestText(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text  string
		limit int
		want  string
	}{
		{"", 3, ""},
		{"abcdef", 6, "abcdef"},
		{"abcdefg", 6, "abc…"},
		{"äöüß", 8, "äöüß"},
		{"äöüßx", 8, "äö…"}, // The third character would be cut in half.
	} {
		if got := truncate.Text(test.text, test.limit); got != test.want {
			t.Errorf("Text(%q, %d) = %q, want %q", test.text, test.limit, got, test.want)
		}
	}
}
