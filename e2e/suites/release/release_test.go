package release

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/rollout/trafficrouting/plugin/rpc"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// setting returns an environment variable that the make target sets.
func setting(t *testing.T, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("%s is not set: run this test by `make test-release`", name)
	}
	return value
}

// run runs a command in a folder and returns its output.
func run(t *testing.T, folder, name string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	var problems bytes.Buffer
	command.Dir, command.Stderr = folder, &problems
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s\n%s", name, strings.Join(args, " "), err, out, problems.String())
	}
	return string(out)
}

// snapshotVersion returns the version of the snapshot in a checkout.
func snapshotVersion(t *testing.T, repo string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(repo, "dist", "metadata.json"))
	if err != nil {
		t.Fatalf("run `make snapshot` first: %v", err)
	}
	var about struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(raw, &about); err != nil {
		t.Fatal(err)
	}
	return about.Version
}

// The same commit in another folder gives the same bytes: binaries, SBOMs, archives, chart, manifests, notes, and images
// with the same digests and the same binaries.
func TestTheSameCommitGivesTheSameBytes(t *testing.T) {
	repo, local := setting(t, "LOCALCLUSTER_REPO"), setting(t, "LOCALCLUSTER_BIN")
	if changes := run(t, repo, "git", "status", "--porcelain"); changes != "" {
		t.Fatalf("the tree is not that of a commit, so nothing can be compared:\n%s", changes)
	}
	clone := filepath.Join(t.TempDir(), "elsewhere")
	run(t, repo, "git", "clone", "--quiet", repo, clone)
	run(t, clone, "make", "snapshot")

	files := []string{"checksums.txt", "release-notes.md"}
	for line := range strings.Lines(string(content(t, filepath.Join(repo, "dist", "checksums.txt")))) {
		// The checksums of the other files, which are in bin or in the repository, are compared instead.
		name := strings.Fields(line)[1]
		if _, err := os.Stat(filepath.Join(repo, "dist", name)); err == nil {
			files = append(files, name)
		}
	}
	// A binary and an SBOM for each program and platform, archives for Krew with a manifest.
	const assets = 2 + 2*(2*4+6) + 6 + 1
	if len(files) != assets {
		t.Errorf("the snapshot is %d files, want %d: %v", len(files), assets, files)
	}
	for _, name := range files {
		if !bytes.Equal(content(t, filepath.Join(repo, "dist", name)), content(t, filepath.Join(clone, "dist", name))) {
			t.Errorf("%s of the same commit differs", name)
		}
	}

	version, folder := snapshotVersion(t, repo), t.TempDir()
	images := func(from, to string) string {
		return run(t, from, local, "--repo", from, "images", "--release", version, filepath.Join(folder, to))
	}
	first, second := images(repo, "first"), images(clone, "second")
	t.Logf("images:\n%s", first)
	if first != second {
		t.Errorf("images of the same commit differ:\n%s", second)
	}
	for _, plugin := range []string{"rollouts-plugin-kedify", "gatewayapi-plugin"} {
		for _, architecture := range []string{"amd64", "arm64"} {
			released := filepath.Join(repo, "dist", plugin+"-linux-"+architecture)
			if !bytes.Equal(content(t, released), content(t, filepath.Join(folder, "first", "linux-"+architecture, plugin))) {
				t.Errorf("the image has another %s for %s than the release", plugin, architecture)
			}
		}
	}
}

func content(t *testing.T, file string) []byte {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// The released binaries for arm64 answer the controller's handshake in an emulator: the go-plugin protocol and the
// first two calls.
func TestTheBinariesForARM64Answer(t *testing.T) {
	emulators, err := filepath.Glob(filepath.Join(setting(t, "RELEASE_QEMU"), "qemu-aarch64*"))
	if err != nil || len(emulators) == 0 {
		t.Fatalf("there is no qemu-aarch64 in %s: %v", os.Getenv("RELEASE_QEMU"), err)
	}
	dist := filepath.Join(setting(t, "LOCALCLUSTER_REPO"), "dist")
	for name, router := range map[string]string{
		"rollouts-plugin-kedify-linux-arm64": "kedify/http", "gatewayapi-plugin-linux-arm64": "argoproj-labs/gatewayAPI",
	} {
		t.Run(name, func(t *testing.T) {
			command := exec.CommandContext(await.Context(t), emulators[0], filepath.Join(dist, name))
			var log bytes.Buffer
			process := plugin.NewClient(&plugin.ClientConfig{
				HandshakeConfig: plugin.HandshakeConfig{
					ProtocolVersion: 1, MagicCookieKey: "ARGO_ROLLOUTS_RPC_PLUGIN", MagicCookieValue: "trafficrouter",
				},
				Plugins: map[string]plugin.Plugin{"RpcTrafficRouterPlugin": &rpc.RpcTrafficRouterPlugin{}},
				Cmd:     command, Managed: true, StartTimeout: await.Patience(),
				Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Info, Output: &log}),
			})
			defer func() {
				process.Kill()
				if t.Failed() {
					t.Log(log.String())
				}
			}()
			began := time.Now()
			control, err := process.Client()
			if err != nil {
				t.Fatalf("handshake: %v", err)
			}
			dispensed, err := control.Dispense("RpcTrafficRouterPlugin")
			if err != nil {
				t.Fatalf("dispense: %v", err)
			}
			asked, ok := dispensed.(rpc.TrafficRouterPlugin)
			if !ok {
				t.Fatalf("dispensed a %T", dispensed)
			}
			if err := control.Ping(); err != nil {
				t.Errorf("ping: %v", err)
			}
			if got := asked.Type(); got != router {
				t.Errorf("the router's type is %q, want %q", got, router)
			}
			t.Logf("answered after %.1f s", time.Since(began).Seconds())
		})
	}
}
