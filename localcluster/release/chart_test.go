package release

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// TestTheTreesChartCanBeReleased: the archive contains the files of the chart except hidden ones, the license, and the
// version of the release. Packing it twice gives equal bytes.
func TestTheTreesChartCanBeReleased(t *testing.T) {
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		if err := WriteChart(os.DirFS("../.."), "0.2.0-rc.1", out); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two archives of one chart differ")
	}
	files := unpack(t, &first)
	about := files["kedify-http/Chart.yaml"]
	if !strings.Contains(about, "\nversion: 0.2.0-rc.1\n") || !strings.Contains(about, "\nappVersion: 0.2.0-rc.1\n") {
		t.Errorf("Chart.yaml has other versions:\n%s", about)
	}
	for _, name := range []string{
		"LICENSE", "values.yaml", "values.schema.json", "files/crd.yaml", "files/interceptorroutes-crd.yaml",
		"templates/_helpers.tpl",
	} {
		if files["kedify-http/"+name] == "" {
			t.Errorf("the chart lacks %s", name)
		}
	}
	for name := range files {
		if strings.Contains(name, "/.") {
			t.Errorf("the chart contains %s", name)
		}
	}
}

func TestChartWithoutVersionIsRejected(t *testing.T) {
	tree := fstest.MapFS{
		"LICENSE": {}, chartFolder + "/values.yaml": {},
		chartFolder + "/Chart.yaml": {Data: []byte("version: 1\nappVersion: 1\n")},
	}
	if err := WriteChart(tree, "0.2.0", &bytes.Buffer{}); err != nil {
		t.Errorf("a minimal chart: %v", err)
	}
	delete(tree, "LICENSE")
	if err := WriteChart(tree, "0.2.0", &bytes.Buffer{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a tree without a license: error %v", err)
	}
	tree[chartFolder+"/Chart.yaml"].Data = []byte("version: 1\n")
	if err := WriteChart(tree, "0.2.0", &bytes.Buffer{}); !errors.Is(err, ErrChart) {
		t.Errorf("a chart without appVersion: error %v", err)
	}
}
