package gatewaydocs_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
)

// reference returns the text of the pages that list keys and flags.
func reference(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	for _, name := range []string{"reference/configuration.md", "how-to/gateway-api-migrate.md"} {
		page, err := os.ReadFile("../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(page)
	}
	return text.String()
}

// TestEveryKeyIsDocumented gets the keys from the plugin's error for an unknown key.
func TestEveryKeyIsDocumented(t *testing.T) {
	var rollout v1alpha1.Rollout
	rollout.Spec.Strategy.Canary = &v1alpha1.CanaryStrategy{
		StableService: "stable", CanaryService: "canary",
		TrafficRouting: &v1alpha1.RolloutTrafficRouting{
			Plugins: map[string]json.RawMessage{"argoproj-labs/gatewayAPI": json.RawMessage(`{"bogus": 1}`)},
		},
	}
	answer := plugin.SetWeight(&rollout, 0, nil)
	_, list, ok := strings.Cut(answer.ErrorString, "the keys are ")
	keys := strings.Split(list, ", ")
	if !ok || len(keys) < 20 {
		t.Fatalf("the plugin lists no keys: %s", answer.ErrorString)
	}
	text := reference(t)
	for _, key := range keys {
		if !strings.Contains(text, "`"+key+"`") {
			t.Errorf("the key %s is in no table", key)
		}
	}
}

// TestEveryFlagIsDocumented gets the flags from the plugin's help.
func TestEveryFlagIsDocumented(t *testing.T) {
	help, err := exec.CommandContext(t.Context(), binary, "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, help)
	}
	flags := regexp.MustCompile(`(?m)^  -(\S+)`).FindAllStringSubmatch(string(help), -1)
	if len(flags) < 5 {
		t.Fatalf("only %d flags in:\n%s", len(flags), help)
	}
	text := reference(t)
	for _, flag := range flags {
		if flag[1] != "version" && !strings.Contains(text, "`-"+flag[1]+"`") {
			t.Errorf("the flag -%s is in no table", flag[1])
		}
	}
}
