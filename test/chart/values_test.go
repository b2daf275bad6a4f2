package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// value is a value of the chart.
type value struct {
	// path are its keys, joined by dots.
	path string
	// preset is the default as JSON.
	preset string
	// comment describes it.
	comment string
}

// values returns the values in the order of values.yaml. A mapping whose keys have comments contains values, and any
// other node is one.
func values(t *testing.T) []value {
	t.Helper()
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(read(t, "charts/kedify-http/values.yaml")), &document); err != nil {
		t.Fatal(err)
	}
	var all []value
	var walk func(prefix string, mapping *yaml.Node)
	walk = func(prefix string, mapping *yaml.Node) {
		for i := 0; i < len(mapping.Content); i += 2 {
			key, node := mapping.Content[i], mapping.Content[i+1]
			if path := prefix + key.Value; isSection(node) {
				walk(path+".", node)
			} else {
				all = append(all, value{path: path, preset: asJSON(t, node), comment: sentence(key.HeadComment)})
			}
		}
	}
	walk("", document.Content[0])
	return all
}

// isSection reports whether a node is a mapping with at least one described key.
func isSection(node *yaml.Node) bool {
	if node.Kind != yaml.MappingNode {
		return false
	}
	for i := 0; i < len(node.Content); i += 2 {
		if node.Content[i].HeadComment != "" {
			return true
		}
	}
	return false
}

// asJSON returns a node as JSON.
func asJSON(t *testing.T, node *yaml.Node) string {
	t.Helper()
	var decoded any
	if err := node.Decode(&decoded); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(decoded)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// sentence returns the text of a comment in one line.
func sentence(comment string) string {
	var words []string
	for line := range strings.Lines(comment) {
		words = append(words, strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "#"))...)
	}
	return strings.Join(words, " ")
}

// TestEveryValueIsDocumented: the table in the chart's README has every value, with its default and its comment.
func TestEveryValueIsDocumented(t *testing.T) {
	t.Parallel()
	const file, begin, end = "charts/kedify-http/README.md", "<!-- values -->\n", "<!-- end -->"
	var table strings.Builder
	table.WriteString("\n| Value | Default | |\n|---|---|---|\n")
	for _, v := range values(t) {
		if v.comment == "" {
			t.Errorf("values.yaml: %s has no comment: describe it", v.path)
		}
		fmt.Fprintf(&table, "| `%s` | `%s` | %s |\n", v.path, v.preset, strings.ReplaceAll(v.comment, "|", `\|`))
	}
	table.WriteString("\n")
	page := read(t, file)
	before, rest, hasBegin := strings.Cut(page, begin)
	_, after, hasEnd := strings.Cut(rest, end)
	if !hasBegin || !hasEnd {
		t.Fatalf("%s has no marks of the table: add %q and %q", file, begin, end)
	}
	want := before + begin + table.String() + end + after
	if *update {
		if err := os.WriteFile(filepath.Join(root, file), []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, page); diff != "" {
		t.Errorf("%s differs from values.yaml: run make chart (-values +page):\n%s", file, diff)
	}
}

// schema is the tested part of a JSON schema.
type schema struct {
	Ref                  string `json:"$ref"`
	Properties           map[string]schema
	Definitions          map[string]schema
	AdditionalProperties any
}

// TestSchema: values.schema.json has exactly the values of values.yaml, and rejects any others.
func TestSchema(t *testing.T) {
	t.Parallel()
	var top schema
	if err := json.Unmarshal([]byte(read(t, "charts/kedify-http/values.schema.json")), &top); err != nil {
		t.Fatal(err)
	}
	// Helm and charts with this one as a dependency set these.
	delete(top.Properties, "global")
	delete(top.Properties, "enabled")
	var got []string
	var walk func(prefix string, s schema)
	walk = func(prefix string, s schema) {
		if s.AdditionalProperties != false {
			t.Errorf("values.schema.json: %s accepts unknown values: set additionalProperties to false", prefix)
		}
		for name, property := range s.Properties {
			if len(property.Properties) > 0 {
				walk(prefix+name+".", property)
				continue
			}
			if _, ok := top.Definitions[strings.TrimPrefix(property.Ref, "#/definitions/")]; !ok && property.Ref != "" {
				t.Errorf("values.schema.json: %s%s: no definition %s", prefix, name, property.Ref)
			}
			got = append(got, prefix+name)
		}
	}
	walk("", top)
	want := map[string]bool{}
	for _, v := range values(t) {
		want[v.path] = true
	}
	slices.Sort(got)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), got); diff != "" {
		t.Errorf("(-values.yaml +values.schema.json):\n%s", diff)
	}
}
