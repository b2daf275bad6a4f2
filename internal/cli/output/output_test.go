package output_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/output"
)

// TestStyle: colors only on a terminal, never with NO_COLOR or TERM=dumb unless requested; Unicode only in a UTF-8 locale.
func TestStyle(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		mode       output.ColorMode
		isTerminal bool
		env        map[string]string
		want       string
	}{
		"a terminal":             {output.Auto, true, map[string]string{"LANG": "en_US.UTF-8"}, "\x1b[32m✓\x1b[0m"},
		"a pipe":                 {output.Auto, false, map[string]string{"LANG": "en_US.UTF-8"}, "✓"},
		"NO_COLOR":               {output.Auto, true, map[string]string{"LANG": "C.utf8", "NO_COLOR": "1"}, "✓"},
		"an empty NO_COLOR":      {output.Auto, true, map[string]string{"LANG": "C.utf8", "NO_COLOR": ""}, "\x1b[32m✓\x1b[0m"},
		"TERM=dumb":              {output.Auto, true, map[string]string{"LANG": "C.UTF-8", "TERM": "dumb"}, "✓"},
		"never":                  {output.Never, true, map[string]string{"LANG": "C.UTF-8"}, "✓"},
		"always":                 {output.Always, false, map[string]string{"LANG": "C.UTF-8", "NO_COLOR": "1"}, "\x1b[32m✓\x1b[0m"},
		"no locale":              {output.Auto, false, nil, "[ ok ]"},
		"another encoding":       {output.Auto, false, map[string]string{"LANG": "de_DE.ISO-8859-1"}, "[ ok ]"},
		"LC_ALL precedes LANG":   {output.Auto, false, map[string]string{"LC_ALL": "C", "LANG": "C.UTF-8"}, "[ ok ]"},
		"LC_CTYPE precedes LANG": {output.Auto, false, map[string]string{"LC_CTYPE": "C.UTF-8", "LANG": "C"}, "✓"},
	} {
		style := output.NewStyle(test.mode, test.isTerminal, func(name string) string { return test.env[name] })
		if got := style.Mark(output.Passed); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	table := output.Rows{Columns: output.Columns("NAME", "IMAGE+", "AGE")}
	table.Add("shop", "shop:1", "5m")
	table.Add("a-longer-name", "x:2", "")
	for name, test := range map[string]struct {
		format     output.Format
		hasHeaders bool
		want       string
	}{
		"table":      {output.Table, true, "NAME            AGE\nshop            5m\na-longer-name   -\n"},
		"wide":       {output.Wide, true, "NAME            IMAGE    AGE\nshop            shop:1   5m\na-longer-name   x:2      -\n"},
		"no headers": {output.Table, false, "shop            5m\na-longer-name   -\n"},
	} {
		var out strings.Builder
		if err := table.Print(&out, test.format, test.hasHeaders); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestTablesLineUp: the rows of a watch have the columns of the rows before, unless a cell is longer than all of them.
func TestTablesLineUp(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	var widths output.Widths
	for i, name := range []string{"shop", "a-longer-näme", "web", ""} {
		table := output.Rows{Columns: output.Columns("NAME", "AGE"), Widths: &widths}
		table.Add(name, "5m")
		if err := table.Print(&out, output.Table, i == 0); err != nil {
			t.Fatal(err)
		}
	}
	want := "NAME   AGE\nshop   5m\na-longer-näme   5m\nweb             5m\n-               5m\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestVersionedObjects(t *testing.T) {
	t.Parallel()
	type object struct {
		Name string `json:"name,omitempty"`
	}
	var out strings.Builder
	for _, write := range []func() error{
		func() error { return output.Print(&out, output.JSON, "Canary", object{Name: "shop"}) },
		func() error { return output.Print(&out, output.YAML, "Canary", object{Name: "shop"}) },
		func() error { return output.PrintLine(&out, "Canary", object{Name: "shop"}) },
		func() error { return output.PrintLine(&out, "Empty", object{}) },
	} {
		if err := write(); err != nil {
			t.Fatal(err)
		}
	}
	want := `{
  "apiVersion": "cli.http.kedify.io/v1",
  "kind": "Canary",
  "name": "shop"
}
apiVersion: cli.http.kedify.io/v1
kind: Canary
name: shop
{"apiVersion":"cli.http.kedify.io/v1","kind":"Canary","name":"shop"}
{"apiVersion":"cli.http.kedify.io/v1","kind":"Empty"}
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := output.PrintLine(&out, "List", []string{}); err == nil {
		t.Error("a list has no apiVersion")
	}
}
