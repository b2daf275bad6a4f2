package install

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAllIsAppliedBeforeTheFirstWait(t *testing.T) {
	var titles []string
	for _, step := range Steps(DNS(Sources{}), EnvoyGateway(Sources{}, "crds", "install.yaml")) {
		titles = append(titles, strings.Fields(step.Title)[0])
	}
	want := []string{"apply", "apply", "apply", "apply", "wait", "wait"}
	if diff := cmp.Diff(want, titles); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}
