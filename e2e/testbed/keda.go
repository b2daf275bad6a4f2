package testbed

import (
	"os"
	"strings"
	"testing"
)

// KEDAAddon names the add-on with the version of KEDA that $KEDA asks for, such as 2.20.2; without that, the one that
// clusters have.
func KEDAAddon() string {
	if version := os.Getenv("KEDA"); version != "" {
		return "keda-v" + version
	}
	return "keda"
}

// CheckKEDAVersion sees that the version of KEDA runs that was asked for, by what its operator says of itself, and
// returns it.
func (k Kubectl) CheckKEDAVersion(t *testing.T) (version string) {
	t.Helper()
	const prefix = "KEDA Version: "
	_, rest, ok := strings.Cut(k.Do(t, "logs", "-n", "keda", "deployment/keda-operator"), prefix)
	version = strings.TrimRight(strings.SplitN(rest, "\n", 2)[0], `"}`)
	if wanted := os.Getenv("KEDA"); !ok || wanted != "" && version != wanted {
		t.Fatalf("the operator is of KEDA %q, want %q", version, wanted)
	}
	t.Logf("KEDA %s", version)
	return version
}
