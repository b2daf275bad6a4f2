package rehearsal

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/localcluster/images"
)

// rehearsed is a release that was built in a clone, with a registry for its images and its chart.
type rehearsed struct {
	// clone is the repository, version that of the release without a v, and revision the commit.
	clone, version, revision string
	// images is the folder that `make docker-build` has written.
	images string
	// registry is the address of the registry, as host:port.
	registry string
}

// TestRelease tags the newest commit in a clone with the version of the chart, and builds the files and images of its
// release with the commands of the release workflow. Then it does what the workflow does with them, with a local
// registry instead of the published one, and with a key instead of the identity of the workflow.
func TestRelease(t *testing.T) {
	r := rehearse(t)
	t.Run("files", r.testFiles)
	t.Run("binaries", r.testBinaries)
	t.Run("bills of materials", r.testBills)
	t.Run("krew", r.testKrew)
	t.Run("chart", r.testChart)
	t.Run("images", r.testImages)
	t.Run("signatures", r.testSignatures)
}

// rehearse builds the release.
func rehearse(t *testing.T) *rehearsed {
	t.Helper()
	repo := setting(t, "LOCALCLUSTER_REPO")
	r := &rehearsed{clone: filepath.Join(t.TempDir(), "clone"), images: filepath.Join(t.TempDir(), "images")}
	if changes := run(t, repo, "git", "status", "--porcelain"); changes != "" {
		t.Errorf("the tree has changes that are not committed, so the clone does not have them:\n%s", changes)
	}
	run(t, repo, "git", "clone", "--quiet", repo, r.clone)
	r.revision = strings.TrimSpace(run(t, r.clone, "git", "rev-parse", "HEAD"))
	r.version = chartVersion(t, r.clone)
	tag := "v" + r.version
	run(t, r.clone, "git", "tag", "--force", tag)

	// The programs of the clone are not those of a checkout that stays.
	programs := "CLUSTER_BIN=" + t.TempDir()
	run(t, r.clone, "make", programs, "release")
	// The workflow has the tag in GITHUB_REF_NAME.
	run(t, r.clone, "make", programs, "docker-build", "IMAGES="+r.images, "IMAGE_TAG="+r.version, "VERSION="+r.version)

	handler, err := images.Handler(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	r.registry = strings.TrimPrefix(server.URL, "http://")
	return r
}

// chartVersion returns the version of the chart in a repository.
func chartVersion(t *testing.T, repo string) string {
	t.Helper()
	about := content(t, filepath.Join(repo, "charts", "kedify-http", "Chart.yaml"))
	version := regexp.MustCompile(`(?m)^version: (.+)$`).FindSubmatch(about)
	if version == nil {
		t.Fatalf("the chart has no version:\n%s", about)
	}
	return string(version[1])
}

// asset returns the path of a file of the release.
func (r *rehearsed) asset(name string) string { return filepath.Join(r.clone, "release", name) }

// setting returns an environment variable that the make target sets.
func setting(t *testing.T, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("%s is not set: run this test by `make test-rehearsal`", name)
	}
	return value
}

// run runs a command in a folder and returns its output. If the command fails, the test fails.
func run(t *testing.T, folder, name string, args ...string) string {
	t.Helper()
	out, err := try(t, folder, nil, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// try runs a command in a folder with additional environment variables, and returns its standard output. The error
// contains the standard error.
func try(t *testing.T, folder string, env []string, name string, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	var problems bytes.Buffer
	command.Dir, command.Env, command.Stderr = folder, append(os.Environ(), env...), &problems
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s\n%s", name, strings.Join(args, " "), err, out, problems.String())
	}
	return string(out), nil
}

// content returns the content of a file.
func content(t *testing.T, file string) []byte {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
