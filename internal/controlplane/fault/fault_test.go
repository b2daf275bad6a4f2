package fault

import (
	"os"
	"strings"
	"testing"
)

func TestNormalBuildHasNoFault(t *testing.T) {
	if SwappedEndpoints || ClusterBeforeRoute || EarlyACK || BriefWrongWeight || UnfinishedAbort || SlowRoutes {
		t.Error("a build without tags has a fault")
	}
}

// What is released is built by GoReleaser and, for images, by localcluster.
func TestReleasesSetNoTagOfAMutant(t *testing.T) {
	for _, file := range []string{"../../../.goreleaser.yaml", "../../../localcluster/cmd/localcluster/assemble.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "-tags=grpcnotrace") || strings.Contains(string(text), "mutant") {
			t.Errorf("%s: releases are built with other tags than grpcnotrace", file)
		}
	}
}
