package doctor_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/doctor"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/output"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/events"
)

// compareFile compares a generated file with its content. With -update it writes the file.
func compareFile(t *testing.T, name, want string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(filepath.Clean(name))
	if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
		t.Errorf("%s is outdated: run this test with -update (%v) (-output +file):\n%s", name, err, diff)
	}
}

// unicode is the style of the golden files.
func unicode() output.Style { return output.Style{IsUnicode: true} }

// printed returns the output of doctor.
func printed(t *testing.T, format output.Format, style output.Style, isQuiet bool, report *doctor.Report) string {
	t.Helper()
	var out strings.Builder
	if err := doctor.Print(&out, format, style, isQuiet, report); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// goldens returns the breakages with a golden file, at least one of each category.
func goldens() []string {
	return []string{
		"no controller", "the controller does not start", "the controller was not restarted", "invalid YAML",
		"not registered", "an unknown key", "the checksum of another file", "nodes that may not be listed",
		"the role is missing or names another ServiceAccount", "the published plugin's role", "another field path",
		"an unknown key in a Rollout", "another namespace claims a host", "the agent is not ready",
		"the agent's webhook is missing", "a certificate's Secret does not exist", "no KEDA", "KEDA is too old",
		"scaledRefKinds lacks Rollouts", "an invalid trigger", "an autoscaler without metrics", "Kubernetes is too old",
		"the user may not create cluster roles",
	}
}

// TestDoctorOnBrokenInstallations has the complete output for each broken installation.
func TestDoctorOnBrokenInstallations(t *testing.T) {
	t.Parallel()
	all := breakages()
	for _, name := range goldens() {
		at := slices.IndexFunc(all, func(b breakage) bool { return b.name == name })
		if at < 0 {
			t.Errorf("there is no breakage %q", name)
			continue
		}
		cluster := healthy(t)
		all[at].change(t, cluster)
		report := doctor.NewReport(cluster, "", doctor.Filter{})
		if all[at].isPre {
			report = doctor.NewPreReport(cluster, doctor.Filter{})
		}
		file := strings.NewReplacer(" ", "-", "'", "").Replace(name) + ".txt"
		compareFile(t, filepath.Join("testdata", "broken", file), printed(t, output.Table, unicode(), false, &report))
	}
}

// demoStep is a moment of a canary.
type demoStep struct {
	name   string
	change func(*v1alpha1.Rollout)
}

// demoSteps are the moments of the demo.
func demoSteps() []demoStep {
	at := func(phase v1alpha1.RolloutPhase, weight int32) func(*v1alpha1.Rollout) {
		return func(r *v1alpha1.Rollout) {
			r.Status.Phase = phase
			r.Status.StableRS, r.Status.CurrentPodHash = "111", "222"
			r.Status.UpdatedReplicas, r.Status.Replicas = 1, 3
			r.Status.Canary.Weights = &v1alpha1.TrafficWeights{
				Stable: v1alpha1.WeightDestination{Weight: 100 - weight}, Canary: v1alpha1.WeightDestination{Weight: weight},
			}
		}
	}
	return []demoStep{
		{"before the canary", func(r *v1alpha1.Rollout) {
			r.Status.Phase, r.Status.StableRS, r.Status.CurrentPodHash = v1alpha1.RolloutPhaseHealthy, "111", "111"
			r.Status.Canary.Weights = nil
		}},
		{"20 % requested", at(v1alpha1.RolloutPhaseProgressing, 20)},
		{"paused at 20 %", at(v1alpha1.RolloutPhasePaused, 20)},
		{"50 %", at(v1alpha1.RolloutPhaseProgressing, 50)},
		{"80 %", at(v1alpha1.RolloutPhaseProgressing, 80)},
		{"promoted", func(r *v1alpha1.Rollout) {
			at(v1alpha1.RolloutPhaseHealthy, 0)(r)
			r.Status.StableRS = "222"
		}},
		{"aborted", func(r *v1alpha1.Rollout) {
			at(v1alpha1.RolloutPhaseDegraded, 0)(r)
			r.Status.Abort, r.Status.Message = true, "RolloutAborted: Rollout aborted update to revision 2"
		}},
	}
}

// TestDoctorAtEveryStepOfTheDemo: a sound installation has the same output at every step of a canary.
func TestDoctorAtEveryStepOfTheDemo(t *testing.T) {
	t.Parallel()
	for _, step := range demoSteps() {
		cluster := healthy(t)
		step.change(cluster.Rollouts[0].Rollout)
		report := doctor.NewReport(cluster, "shop", doctor.Filter{})
		compareFile(t, filepath.Join("testdata", "sound.txt"), printed(t, output.Table, unicode(), false, &report))
		if t.Failed() {
			t.Fatal(step.name)
		}
	}
}

// TestFormatsOfDoctor has the other formats, the ASCII marks and the colors of one broken installation.
func TestFormatsOfDoctor(t *testing.T) {
	t.Parallel()
	cluster := healthy(t)
	denyController("patch", "httpscaledobjects")(t, cluster)
	report := doctor.NewReport(cluster, "", doctor.Filter{})
	var object strings.Builder
	if err := output.Print(&object, output.JSON, "DoctorReport", report); err != nil {
		t.Fatal(err)
	}
	before := healthy(t)
	before.ServerVersion, before.UserAllowed = "v1.34.5", map[facts.Permission]bool{}
	for _, permission := range doctor.InstallPermissions(before) {
		before.UserAllowed[permission] = true
	}
	pre := doctor.NewPreReport(before, doctor.Filter{})
	selected := doctor.NewReport(cluster, "", doctor.Filter{Categories: []doctor.Category{doctor.Permissions}})
	suppressed := doctor.NewReport(cluster, "", doctor.Filter{Suppressed: []string{"forbidden=" + account}})
	for file, text := range map[string]string{
		"wide.txt":       printed(t, output.Wide, unicode(), false, &report),
		"ascii.txt":      printed(t, output.Table, output.Style{}, false, &report),
		"color.txt":      printed(t, output.Table, output.Style{HasColor: true, IsUnicode: true}, false, &report),
		"quiet.txt":      printed(t, output.Table, unicode(), true, &report),
		"name.txt":       printed(t, output.Name, unicode(), false, &report),
		"category.txt":   printed(t, output.Table, unicode(), false, &selected),
		"suppressed.txt": printed(t, output.Table, unicode(), true, &suppressed),
		"pre.txt":        printed(t, output.Table, unicode(), false, &pre),
		"report.json":    object.String(),
	} {
		compareFile(t, filepath.Join("testdata", "formats", file), text)
	}
}

// TestExplanations has the output of explain for one code, and the table of all.
func TestExplanations(t *testing.T) {
	t.Parallel()
	all, err := doctor.Explanations()
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		e := &all[i]
		if e.Summary == "" || e.Cause == "" || e.Category == "" || !*update && (e.Example.Fix == "" || e.Example.Code != e.Code) {
			t.Errorf("incomplete: %+v", e)
		}
	}
	explained, err := doctor.Explain("pluginnotregistered")
	if err != nil {
		t.Fatal(err)
	}
	var one, table strings.Builder
	if err := doctor.PrintExplanation(&one, output.Style{}, &explained); err != nil {
		t.Fatal(err)
	}
	if err := doctor.PrintExplanations(&table, output.Table, true, all); err != nil {
		t.Fatal(err)
	}
	compareFile(t, filepath.Join("testdata", "explain", "code.txt"), one.String())
	compareFile(t, filepath.Join("testdata", "explain", "all.txt"), table.String())
	_, err = doctor.Explain("Plugin")
	if err == nil || !strings.Contains(err.Error(), "similar: PluginsMalformed") {
		t.Errorf("an unknown code: %v", err)
	}
}

// TestThresholds is the exit code of doctor.
func TestThresholds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		errors, warnings int
		threshold        string
		fails            bool
	}{
		{0, 0, "warning", false},
		{0, 1, "error", false},
		{0, 1, "warning", true},
		{1, 0, "error", true},
		{1, 1, "never", false},
	} {
		report := doctor.Report{Summary: doctor.Summary{Errors: test.errors, Warnings: test.warnings}}
		if got := report.Fails(test.threshold); got != test.fails {
			t.Errorf("%+v: fails %t", test, got)
		}
	}
}

// TestEveryCheckHasAPage: the documentation of each check exists, with its anchor.
func TestEveryCheckHasAPage(t *testing.T) {
	t.Parallel()
	checks := doctor.NewReport(healthy(t), "", doctor.Filter{}).Checks
	for _, check := range append(checks, doctor.NewPreReport(healthy(t), doctor.Filter{}).Checks...) {
		path, isOurs := strings.CutPrefix(check.URL, events.DocumentationURL)
		file, anchor, _ := strings.Cut(path, "#")
		page, err := os.ReadFile(filepath.Join("../../../docs", filepath.Clean(file)))
		if err != nil || !isOurs {
			t.Errorf("%s: %s: %v", check.Title, check.URL, err)
			continue
		}
		if anchor != "" && !hasAnchor(string(page), anchor) {
			t.Errorf("%s: %s has no anchor %q", check.Title, file, anchor)
		}
	}
}

// hasAnchor reports whether a page has an anchor: an element, or a heading as GitHub links it.
func hasAnchor(page, anchor string) bool {
	if strings.Contains(page, `<a id="`+anchor+`">`) {
		return true
	}
	for line := range strings.Lines(page) {
		if title := strings.TrimLeft(line, "#"); title != line {
			plain := strings.NewReplacer(" ", "-", ":", "", "`", "", ",", "", ".", "", "/", "").Replace(
				strings.ToLower(strings.TrimSpace(title)))
			if plain == anchor {
				return true
			}
		}
	}
	return false
}

// TestEveryCodeHasACheck: each finding is printed below exactly one check.
func TestEveryCodeHasACheck(t *testing.T) {
	t.Parallel()
	for _, test := range breakages() {
		cluster := healthy(t)
		test.change(t, cluster)
		report := doctor.NewReport(cluster, "", doctor.Filter{})
		if test.isPre {
			report = doctor.NewPreReport(cluster, doctor.Filter{})
		}
		if len(report.Findings) != 1 || report.Findings[0].Code != test.code {
			t.Errorf("%s: the checks have %+v", test.name, report.Findings)
		}
	}
}
