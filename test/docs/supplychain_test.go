package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// workflow is the tested part of a workflow of GitHub Actions.
type workflow struct {
	Permissions map[string]string `json:"permissions"`
	Jobs        map[string]struct {
		Permissions map[string]string `json:"permissions"`
		Steps       []struct {
			Uses string `json:"uses"`
			Run  string `json:"run"`
			With struct {
				PersistCredentials *bool `json:"persist-credentials"`
			} `json:"with"`
		} `json:"steps"`
	} `json:"jobs"`
}

// problemsOf returns the violations of the rules for workflows in the text of one, sorted.
func problemsOf(text string) (problems []string) {
	// An action that is pinned by its commit, with its version in a comment.
	pinned := regexp.MustCompile(`^\s*(?:- )?uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		isLocal := strings.Contains(line, "uses: ./")
		if strings.Contains(line, "uses:") && !isLocal && !pinned.MatchString(line) {
			problems = append(problems, "not pinned by a full commit with its version as a comment: "+strings.TrimSpace(line))
		}
	}
	var read workflow
	if err := yaml.Unmarshal([]byte(text), &read); err != nil {
		return append(problems, err.Error())
	}
	if read.Permissions == nil || len(read.Permissions) > 0 {
		problems = append(problems, "permissions of all jobs: want none, {}")
	}
	for name, job := range read.Jobs {
		if job.Permissions == nil {
			problems = append(problems, "job "+name+": no permissions: list those that it needs")
		}
		for _, step := range job.Steps {
			builds := regexp.MustCompile(`\b(make|go|npm|pip)\b|\.ci/run`).MatchString(step.Run)
			for permission, access := range job.Permissions {
				if builds && access == "write" {
					problems = append(problems, fmt.Sprintf("job %s: builds with permission %s: write", name, permission))
				}
			}
			isCheckout := strings.HasPrefix(step.Uses, "actions/checkout@")
			if keeps := step.With.PersistCredentials; isCheckout && (keeps == nil || *keeps) {
				problems = append(problems, "job "+name+": checkout keeps its credentials")
			}
		}
	}
	slices.Sort(problems)
	return slices.Compact(problems)
}

// TestWorkflowsArePinned: in all workflows, each action is pinned by its commit, each job lists its permissions, and no
// job builds with a permission to write.
func TestWorkflowsArePinned(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*.y*ml"))
	if err != nil || len(files) < 4 {
		t.Fatalf("found only %v: %v", files, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range problemsOf(string(raw)) {
			t.Errorf("%s: %s", filepath.Base(file), problem)
		}
	}
}

// TestProblemsOf tests the check itself.
func TestProblemsOf(t *testing.T) {
	const commit = "11bd71901bbe5b1630ceea73d27597364c9af683"
	job := func(uses string) string {
		return "permissions: {}\njobs:\n  a:\n    permissions: {contents: read}\n    steps:\n      - uses: " + uses + "\n"
	}
	for name, test := range map[string]struct{ text, problem string }{
		"pinned":            {job("a/b@" + commit + " # v1.2.3"), ""},
		"pinned in a path":  {job("a/b/c@" + commit + " # v1.2.3"), ""},
		"local":             {job("./.github/actions/a"), ""},
		"tag":               {job("a/b@v4"), "not pinned"},
		"short commit":      {job("a/b@" + commit[:12] + " # v1.2.3"), "not pinned"},
		"without a version": {job("a/b@" + commit), "not pinned"},
		"branch":            {job("a/b@main # v1.2.3"), "not pinned"},
		"quoted tag":        {job(`"a/b@v4"`), "not pinned"},
		"image":             {job("docker://alpine:3"), "not pinned"},
		"reusable workflow": {
			"permissions: {}\njobs:\n  a:\n    permissions: {}\n    uses: a/b/.github/workflows/c.yml@v1\n", "not pinned",
		},
		"no permissions": {"permissions: {}\njobs: {a: {steps: []}}", "job a: no permissions"},
		"default":        {"jobs: {a: {permissions: {}, steps: []}}", "permissions of all jobs"},
		"build with a token": {
			"permissions: {}\njobs: {a: {permissions: {id-token: write}, steps: [{run: make release}]}}",
			"builds with permission id-token",
		},
		"credentials": {job("actions/checkout@" + commit + " # v4.2.2"), "keeps its credentials"},
	} {
		got := strings.Join(problemsOf(test.text), "; ")
		if !strings.Contains(got, test.problem) || (got == "") != (test.problem == "") {
			t.Errorf("%s: %q, want %q", name, got, test.problem)
		}
	}
}

// TestReleasePublishesEveryImage: the workflow publishes the images that docs/dev/releasing.md lists by the last part of
// their names.
func TestReleasePublishesEveryImage(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root, ".github", "workflows", "release.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var read struct {
		Jobs struct {
			Images struct {
				Strategy struct {
					Matrix struct {
						Image []string `json:"image"`
					} `json:"matrix"`
				} `json:"strategy"`
			} `json:"images"`
		} `json:"jobs"`
	}
	if err := yaml.Unmarshal(raw, &read); err != nil {
		t.Fatal(err)
	}
	var listed []string
	page := text(t, "docs/dev/releasing.md")
	for _, row := range regexp.MustCompile("(?m)^\\| image `([a-z-]+)` ").FindAllStringSubmatch(page, -1) {
		listed = append(listed, row[1])
	}
	var published []string
	for _, image := range read.Jobs.Images.Strategy.Matrix.Image {
		published = append(published, filepath.Base(image))
	}
	slices.Sort(published)
	slices.Sort(listed)
	if diff := cmp.Diff(listed, published); diff != "" || len(listed) == 0 {
		t.Errorf("images (-releasing.md +workflow):\n%s", diff)
	}
}

// TestBaseImagesHaveDigests: a tag can be moved, a digest cannot.
func TestBaseImagesHaveDigests(t *testing.T) {
	found := 0
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "node_modules"):
			return filepath.SkipDir
		case !strings.HasPrefix(entry.Name(), "Dockerfile"):
			return nil
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, from := range regexp.MustCompile(`(?m)^FROM .*$`).FindAllString(string(raw), -1) {
			found++
			if !regexp.MustCompile(`@sha256:[0-9a-f]{64}( |$)`).MatchString(from) && from != "FROM scratch" {
				t.Errorf("%s: no digest: %s", path, from)
			}
		}
		return nil
	})
	if err != nil || found == 0 {
		t.Fatalf("%d base images: %v", found, err)
	}
}
