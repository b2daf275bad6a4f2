package testbed

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTranscript: ages, versions of other projects and Pods of earlier versions are replaced, everything else stays.
func TestTranscript(t *testing.T) {
	t.Parallel()
	var record Transcript
	record.Add("list", "NAME   STATUS    AGE\nshop   Healthy   42s\nweb    Paused    5m3s\n")
	record.Add("status", "Step:       2/2\nReplicas:   5 total, 1 updated, 4 available\n")
	record.Add("doctor", "✓ KEDA is ready (keda/keda-operator, 1 of 1 replicas are ready, version 2.19.0)\n")
	want := `$ list
NAME   STATUS    AGE
shop   Healthy   <age>
web    Paused   <age>

$ status
Step:       2/2
Replicas:   <n> total, 1 updated, <n> available

$ doctor
✓ KEDA is ready (keda/keda-operator, 1 of 1 replicas are ready, version <version>)
`
	if diff := cmp.Diff(want, record.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestGolden: a golden file is written only on request.
func TestGolden(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "folder", "file.txt")
	if _, err := (Golden{Path: path}).Expect("first"); err == nil {
		t.Error("a file that does not exist is no error")
	}
	for _, step := range []struct {
		isUpdate bool
		output   string
		want     string
	}{{true, "first", "first"}, {false, "second", "first"}, {true, "second", "second"}} {
		got, err := Golden{Path: path, IsUpdate: step.isUpdate}.Expect(step.output)
		if err != nil || got != step.want {
			t.Errorf("%+v: %q, %v", step, got, err)
		}
	}
}
