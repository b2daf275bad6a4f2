package shell

import "testing"

func TestLine(t *testing.T) {
	got := Line([]string{"kubectl", "get", "-o", `jsonpath={.metadata.name}`, "it's"})
	if want := `kubectl get -o jsonpath='{.metadata.name}' 'it'\''s'`; got != want {
		t.Errorf("command line %s, want %s", got, want)
	}
}
