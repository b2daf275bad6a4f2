package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// configuration is the tested part of .goreleaser.yaml.
type configuration struct {
	Version int `json:"version"`
	Builds  []struct {
		Main   string   `json:"main"`
		Binary string   `json:"binary"`
		Env    []string `json:"env"`
		Flags  []string `json:"flags"`
		Goos   []string `json:"goos"`
		Goarch []string `json:"goarch"`
		Times  string   `json:"mod_timestamp"`
	} `json:"builds"`
	Archives []struct {
		IDs     []string `json:"ids"`
		Formats []string `json:"formats"`
	} `json:"archives"`
	Checksum struct {
		Name  string `json:"name_template"`
		Files []struct {
			Glob string `json:"glob"`
		} `json:"extra_files"`
	} `json:"checksum"`
	SBOMs []struct {
		Artifacts string `json:"artifacts"`
	} `json:"sboms"`
	Release struct {
		Disable bool `json:"disable"`
	} `json:"release"`
}

// TestReleaseConfiguration tests the configuration of a release without the minutes of a snapshot.
func TestReleaseConfiguration(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root, ".goreleaser.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var c configuration
	if err := yaml.Unmarshal(raw, &c); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, build := range c.Builds {
		program := filepath.Base(build.Main)
		names = append(names, program)
		if _, err := os.Stat(filepath.Join(root, build.Main)); err != nil {
			t.Errorf("%s is built from nothing: %v", program, err)
		}
		if want := program + "-{{ .Os }}-{{ .Arch }}"; build.Binary != want {
			t.Errorf("%s is called %s, want %s", program, build.Binary, want)
		}
		want := [][]string{{"linux", "darwin"}, {"amd64", "arm64"}}
		if program == "kubectl-http_canary" {
			want[0] = append(want[0], "windows")
		}
		if platforms := cmp.Diff(want, [][]string{build.Goos, build.Goarch}); platforms != "" {
			t.Errorf("platforms of %s (-want +got):\n%s", program, platforms)
		}
		if !slices.Contains(build.Env, "CGO_ENABLED=0") || !slices.Contains(build.Flags, "-trimpath") ||
			build.Times != "{{ .CommitTimestamp }}" {
			t.Errorf("%s is not static, or depends on where and when it is built: %+v", program, build)
		}
	}
	if diff := cmp.Diff([]string{"rollouts-plugin-kedify", "gatewayapi-plugin", "kubectl-http_canary"},
		names); diff != "" {
		t.Errorf("binaries (-want +got):\n%s", diff)
	}
	// The hooks write those below bin.
	var files []string
	for _, file := range c.Checksum.Files {
		files = append(files, file.Glob)
	}
	if diff := cmp.Diff([]string{
		"bin/config.tar.gz", "bin/install.yaml", "bin/kedify-http-{{ .Version }}.tgz", "bin/third-party-licenses.txt",
		"LICENSE", "NOTICE",
	}, files); diff != "" {
		t.Errorf("files with a checksum in addition (-want +got):\n%s", diff)
	}
	if c.Version != 2 || c.Checksum.Name != "checksums.txt" || !c.Release.Disable ||
		len(c.Archives) != 2 || !slices.Equal(c.Archives[0].Formats, []string{"binary"}) || len(c.Archives[0].IDs) > 0 ||
		!slices.Equal(c.Archives[1].IDs, []string{"kubectl-http_canary"}) ||
		len(c.SBOMs) != 1 || c.SBOMs[0].Artifacts != "binary" {
		t.Errorf("configuration %+v, want raw binaries with bills of materials, archives of the kubectl plugin, "+
			"checksums.txt, and no release", c)
	}
}

// TestWorkflowTargetsExist: the workflows call existing make targets.
func TestWorkflowTargetsExist(t *testing.T) {
	targets := makeTargets(t)
	workflows, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*.yml"))
	if err != nil || len(workflows) == 0 {
		t.Fatal("no workflows found ", err)
	}
	called := 0
	for _, file := range workflows {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`(?m)(?:run: |^ +)make ([a-z][a-z-]+)`).FindAllStringSubmatch(string(raw),
			-1) {
			called++
			if !slices.Contains(targets, match[1]) {
				t.Errorf("%s calls `make %s`, which the Makefile does not have", filepath.Base(file), match[1])
			}
		}
		if strings.Contains(string(raw), ".ci/run") {
			called++
		}
	}
	if called < 4 {
		t.Errorf("the workflows call only %d targets", called)
	}
}
