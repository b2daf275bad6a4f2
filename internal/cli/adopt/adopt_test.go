package adopt_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/adopt"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

var update = flag.Bool("update", false, "write the golden files of testdata and remove orphans")

// application reads testdata/app.yaml.
func application(t *testing.T) adopt.Application {
	t.Helper()
	text, err := os.ReadFile("testdata/app.yaml")
	if err != nil {
		t.Fatal(err)
	}
	app := adopt.Application{
		Rollout: new(v1alpha1.Rollout), Services: make([]corev1.Service, 2), Ingresses: make([]networkingv1.Ingress, 1),
		Autoscalers: make([]autoscalingv2.HorizontalPodAutoscaler, 1),
	}
	into := []any{app.Rollout, &app.Services[0], &app.Services[1], &app.Ingresses[0], &app.Autoscalers[0]}
	documents := strings.Split(string(text), "\n---\n")
	if len(documents) != len(into) {
		t.Fatalf("%d documents", len(documents))
	}
	for i, document := range documents {
		if err := yaml.UnmarshalStrict([]byte(document), into[i]); err != nil {
			t.Fatal(err)
		}
	}
	return app
}

// compareGolden compares a proposal with a golden file.
func compareGolden(t *testing.T, name string, app adopt.Application) {
	t.Helper()
	proposal, err := adopt.Propose(app)
	if err != nil {
		t.Fatal(err)
	}
	got, err := yaml.Marshal(proposal)
	if err != nil {
		t.Fatal(err)
	}
	file := "testdata/" + name + ".golden.yaml"
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// removeOrphans reports golden files without a test case. With -update it removes them.
func removeOrphans(t *testing.T, changes map[string]func(*adopt.Application)) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.golden.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if _, ok := changes[strings.TrimSuffix(filepath.Base(file), ".golden.yaml")]; ok {
			continue
		}
		if !*update {
			t.Errorf("no test case has %s: run this test with -update", file)
		} else if err := os.Remove(file); err != nil {
			t.Error(err)
		}
	}
}

func TestProposals(t *testing.T) {
	t.Parallel()
	changes := map[string]func(*adopt.Application){
		"autoscaled": func(*adopt.Application) {},
		"fixed-replicas": func(app *adopt.Application) {
			app.Autoscalers[0].Spec.ScaleTargetRef.Name = "other"
		},
		"existing-services": func(app *adopt.Application) {
			canary := app.Rollout.Spec.Strategy.Canary
			canary.StableService, canary.CanaryService, canary.Steps = "web", "other", nil
			app.Ingresses[0].Spec.Rules[0].Host = ""
		},
	}
	removeOrphans(t, changes)
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := application(t)
			change(&app)
			compareGolden(t, name, app)
		})
	}
}

func TestNotAdoptable(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change  func(*adopt.Application)
		message string
	}{
		"another strategy": {
			func(app *adopt.Application) { app.Rollout.Spec.Strategy.Canary = nil }, "spec.strategy.canary is missing",
		},
		"a router": {
			func(app *adopt.Application) {
				app.Rollout.Spec.Strategy.Canary.TrafficRouting = new(v1alpha1.RolloutTrafficRouting)
			}, "already configures a router",
		},
		"ping-pong": {
			func(app *adopt.Application) { app.Rollout.Spec.Strategy.Canary.PingPong = new(v1alpha1.PingPongSpec) },
			"pingPong",
		},
		"a ScaledObject": {
			func(app *adopt.Application) {
				scaled := facts.ScaledObject{}
				scaled.Name, scaled.Spec.ScaleTargetRef.Kind, scaled.Spec.ScaleTargetRef.Name = "scaled", "Rollout", "web"
				app.ScaledObjects = []facts.ScaledObject{scaled}
			}, "ScaledObject scaled already scales it: add a trigger of type kedify-http",
		},
		"no Service": {func(app *adopt.Application) { app.Services = nil }, "no Service selects its Pods"},
		"a missing stableService": {
			func(app *adopt.Application) { app.Rollout.Spec.Strategy.Canary.StableService = "gone" },
			"stableService: Service gone does not exist",
		},
		"two Services": {
			func(app *adopt.Application) { app.Services[1].Spec.Selector = map[string]string{"tier": "front"} },
			"Services web, other select its Pods",
		},
		"no Ingress": {
			func(app *adopt.Application) { app.Ingresses = nil },
			"no Ingress in the namespace references Service web",
		},
		"two ports": {
			func(app *adopt.Application) {
				app.Ingresses[0].Spec.Rules[1].HTTP.Paths[0].Backend.Service.Port.Number = 9090
			}, "several ports of Service web",
		},
		"a missing port": {
			func(app *adopt.Application) {
				app.Ingresses[0].Spec.Rules[0].HTTP.Paths[0].Backend.Service.Port.Name = "https"
			}, "or one that it does not have",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := application(t)
			test.change(&app)
			if _, err := adopt.Propose(app); !errors.Is(err, adopt.ErrNotAdoptable) ||
				!strings.Contains(err.Error(), test.message) {
				t.Errorf("error %v", err)
			}
		})
	}
}
