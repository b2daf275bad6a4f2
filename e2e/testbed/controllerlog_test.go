package testbed

import (
	"bufio"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/e2e/trace"
)

// The log is one of Argo Rollouts v1.10. Its plugin is killed, starts again, reports a weight as unverified, fails to
// start, and verifies a weight. The log also contains reconciliations of another Rollout and of a Service.
func TestSyncs(t *testing.T) {
	log, err := os.Open(filepath.Join("testdata", "controller.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	got, err := syncsIn(bufio.NewScanner(log))
	if err != nil {
		t.Fatal(err)
	}
	at := func(second int) time.Time { return start().Add(time.Duration(second) * time.Second) }
	want := []trace.Sync{
		{
			Began: at(0), Ended: at(3), Version: 630, Answer: trace.Failed, Answered: at(2),
			Failure: "failed to set weight via plugin: connection is shut down",
		},
		{Began: at(4), Ended: at(9), Version: 631, Started: true, Answer: trace.Unverified, Answered: at(8)},
		{
			Began: at(10), Ended: at(12), Version: 632, Answer: trace.Failed, Answered: at(11),
			Failure: "failed to get traffic router plugin kedify/http: unable to start plugin system: could not ping plugin",
		},
		{
			Began: at(13), Ended: at(15), Version: 633,
			Failure: `Patch \"https://10.96.0.1:443/apis\": connection reset by peer`,
		},
		{Began: at(16), Version: 634, Answer: trace.Verified, Answered: at(17)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("syncs (-want +got):\n%s", diff)
	}
}
