package main

import (
	"bytes"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/localcluster/images"
	"github.com/kedify/argo-rollouts-plugin/localcluster/product"
)

// docs/dev/releasing.md has a table of sizes and their limits. The images of this tree are within the limits, and the
// sizes in the table are current.
func TestSizesStayWithinTheirLimits(t *testing.T) {
	const repo = "../../.."
	page, err := os.ReadFile(repo + "/docs/dev/releasing.md")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	built, err := buildImages(t.Context(), repo, folder, imagesRequest{
		registry: registry, tag: "dev", release: product.Release{Version: "0.0.0"}, architectures: []string{"amd64"},
		images: product.Published(),
	})
	if err != nil {
		t.Fatal(err)
	}
	megabytes := map[string]float64{}
	for program := range product.Packages() {
		status, err := os.Stat(filepath.Join(folder, "linux-amd64", string(program)))
		if err != nil {
			t.Fatal(err)
		}
		megabytes["binary `"+string(program)+"`"] = float64(status.Size()) / 1e6
	}
	for _, image := range product.Published() {
		bill, err := os.ReadFile(filepath.Join(folder, "sbom", path.Base(image)+".cdx.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, program := range product.Programs(image) {
			if !bytes.Contains(bill, []byte(strings.TrimPrefix(product.Packages()[program], ".")+"@v0.0.0#")) {
				t.Errorf("the bill of materials of image %s lacks program %s", image, program)
			}
		}
	}
	megabytes["binary `kubectl-http_canary`"] = sizeOf(t, repo, "kubectl-http_canary")
	for i, name := range product.Published() {
		size, err := images.Size(built[i].Images["amd64"])
		if err != nil {
			t.Fatal(err)
		}
		megabytes["image `"+path.Base(name)+"`"] = float64(size) / 1e6
	}
	rows := regexp.MustCompile("(?m)^\\| ((?:binary|image) `[a-z_-]+`) \\| ([0-9.]+) \\| ([0-9.]+) \\|$").
		FindAllStringSubmatch(string(page), -1)
	if len(rows) != len(megabytes) {
		t.Errorf("the table has %d rows for %d sizes", len(rows), len(megabytes))
	}
	t.Logf("%-34s %6s %6s", "", "MB", "limit")
	for _, row := range rows {
		documented, err := strconv.ParseFloat(row[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		limit, err := strconv.ParseFloat(row[3], 64)
		if err != nil {
			t.Fatal(err)
		}
		got, known := megabytes[row[1]]
		if !known {
			t.Errorf("the table lists %s, which is not released", row[1])
			continue
		}
		t.Logf("%-34s %6.1f %6.1f", row[1], got, limit)
		if got > limit {
			t.Errorf("%s has %.1f MB, its limit is %.1f", row[1], got, limit)
		}
		const stale = 0.05
		if got < documented*(1-stale) || got > documented*(1+stale) {
			t.Errorf("%s has %.1f MB, the table lists %.1f", row[1], got, documented)
		}
	}
}

// sizeOf returns the size in megabytes of a command that is released without an image.
func sizeOf(t *testing.T, repo, name string) float64 {
	t.Helper()
	binary := filepath.Join(t.TempDir(), name)
	command := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-tags=grpcnotrace",
		"-gcflags=all=-dwarf=false", "-ldflags", "-s -w", "-o", binary, "./cmd/"+name)
	command.Dir, command.Env = repo, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	status, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	return float64(status.Size()) / 1e6
}
