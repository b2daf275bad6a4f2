package testbed

import (
	"os"
	"strings"
	"testing"
)

// KEDAAddon returns the add-on for the version of KEDA in $KEDA, such as 2.20.2. The default is the version of the
// embedded cluster.
func KEDAAddon() string {
	if version := os.Getenv("KEDA"); version != "" {
		return "keda-v" + version
	}
	return "keda"
}

// CheckKEDAVersion checks that the operator logs the version of KEDA in $KEDA, and returns that version.
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
