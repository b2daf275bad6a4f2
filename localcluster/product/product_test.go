package product

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/localcluster/images"
)

func TestEachProgramIsInOneImage(t *testing.T) {
	count := map[Program]int{}
	for _, image := range Published() {
		for _, program := range Programs(image) {
			count[program]++
		}
	}
	for program, folder := range Packages() {
		if count[program] != 1 {
			t.Errorf("%s is in %d images", program, count[program])
		}
		if _, err := os.Stat("../../" + folder); err != nil {
			t.Errorf("%s is built from nothing: %v", program, err)
		}
	}
}

func TestTheImageOfThePlugins(t *testing.T) {
	got := Image(PluginImage, map[Program]string{Plugin: "/built/p", GatewayPlugin: "/built/g"},
		"kedify/argo-rollouts-plugin:dev")
	want := images.Spec{
		Names: []string{"kedify/argo-rollouts-plugin:dev"}, User: "65532", Entrypoint: []string{"/rollouts-plugin-kedify"},
		Files: []images.File{
			{Path: "/rollouts-plugin-kedify", Source: "/built/p"},
			{Path: "/plugin/rollouts-plugin-kedify", LinkTo: "/rollouts-plugin-kedify"},
			{Path: "/gatewayapi-plugin", Source: "/built/g"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the image (-want +got):\n%s", diff)
	}
	if without := Image(PluginImage, map[Program]string{Plugin: "/built/p"}); len(without.Files) != 2 {
		t.Errorf("a program that was not built is in the image: %v", without.Files)
	}
}

func TestDocuments(t *testing.T) {
	want := []images.File{
		{Path: "/licenses/LICENSE", Source: "/repo/LICENSE", Mode: 0o644},
		{Path: "/licenses/NOTICE", Source: "/repo/NOTICE", Mode: 0o644},
		{Path: "/licenses/third-party.txt", Source: "/built/third-party.txt", Mode: 0o644},
	}
	if diff := cmp.Diff(want, Documents("/repo", "/built/third-party.txt")); diff != "" {
		t.Errorf("documents (-want +got):\n%s", diff)
	}
}

func TestLabels(t *testing.T) {
	want := map[string]string{
		"org.opencontainers.image.title":    "agent",
		"org.opencontainers.image.source":   "https://github.com/kedify/argo-rollouts-plugin",
		"org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.version":  "0.1.0",
	}
	if diff := cmp.Diff(want, Release{Version: "0.1.0"}.Labels(AgentImage)); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

// The workflow signs all published images and attests the provenance of each, and so it does with the chart.
func TestTheWorkflowSignsEveryImage(t *testing.T) {
	raw, err := os.ReadFile("../../.github/workflows/release.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"image:\n          - " + strings.Join(Published(), "\n          - ") + "\n",
		"IMAGE: " + Registry + "/" + Organization + "/${{ matrix.image }}",
		`cosign sign --yes "$IMAGE@$DIGEST"`,
		"subject-name: ${{ env.IMAGE }}",
		"CHARTS: " + Registry + "/" + Organization + "/" + Charts + "\n",
	} {
		if !strings.Contains(string(raw), part) {
			t.Errorf("the workflow does not contain %q", part)
		}
	}
}
