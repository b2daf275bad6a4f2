package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/test/samples"
)

// samplesPage shows the rows of package samples, which test/agent applies.
const samplesPage = "docs/reference/kedify-samples.md"

// TestReferenceOfSamples compares the table of the page with the tested rows.
func TestReferenceOfSamples(t *testing.T) {
	compareParts(t, samplesPage, map[string]string{"samples": samplesTable()})
}

// samplesTable returns the table of the samples.
func samplesTable() string {
	var table strings.Builder
	table.WriteString("| Sample | What happens here | What is refused, and why |\n|---|---|---|\n")
	for _, sample := range samples.All() {
		refused := sample.Refused
		if refused == "" {
			refused = "–"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", sample.Name, sample.Happens, refused)
	}
	return table.String()
}

// TestSamplesHaveFiles: each row has a file of its own, and each file a row.
func TestSamplesHaveFiles(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "test/samples/testdata/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	unused := map[string]bool{}
	for _, file := range files {
		unused[filepath.Base(file)] = true
	}
	for _, sample := range samples.All() {
		if sample.File == "" {
			continue
		}
		if !unused[sample.File] {
			t.Errorf("%s: file %s does not exist, or belongs to another row", sample.Name, sample.File)
		}
		delete(unused, sample.File)
		text, err := os.ReadFile(filepath.Join(root, "test/samples/testdata", sample.File))
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range sample.Objects {
			if name := object.ScaledObject; name != "" && !strings.Contains(string(text), "\n  name: "+name+"\n") {
				t.Errorf("%s: no ScaledObject %s in %s", sample.Name, name, sample.File)
			}
		}
	}
	for file := range unused {
		t.Errorf("no row has the file %s: add one, or remove the file", file)
	}
}
