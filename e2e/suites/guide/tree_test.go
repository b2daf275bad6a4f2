package guide

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// revision is a revision in the tree that `get rollout` prints, with its ReplicaSet and the number of its Pods.
type revision struct {
	number int
	// role is the role of the ReplicaSet: stable, canary, or empty for a former version.
	role string
	pods int
}

// tree reads the revisions of the tree without hashes and ages, newest first.
func tree(printed string) []revision {
	var all []revision
	for line := range strings.Lines(printed) {
		if match := regexp.MustCompile(`# revision:(\d+)`).FindStringSubmatch(line); match != nil {
			number, _ := strconv.Atoi(match[1]) // digits
			all = append(all, revision{number: number})
			continue
		}
		fields := strings.Fields(line)
		if len(all) == 0 {
			continue
		}
		last := &all[len(all)-1]
		switch {
		case slices.Contains(fields, "Pod"):
			last.pods++
		case slices.Contains(fields, "ReplicaSet"):
			for info := range strings.SplitSeq(fields[len(fields)-1], ",") {
				if info == "stable" || info == "canary" {
					last.role = info
				}
			}
		}
	}
	return all
}

// awaitTree waits until the tree begins with these revisions, the newest first, and continues down to revision 1 with
// former versions, which have no role. Their Pods end after a delay.
func (r *reader) awaitTree(t *testing.T, want ...revision) {
	t.Helper()
	r.until(t, "the tree of revisions", func() (string, bool) {
		printed := r.runLine(t, shown+" --no-color")
		got := tree(printed)
		former := got[min(len(want), len(got)):]
		hasOthers := slices.ContainsFunc(former, func(f revision) bool { return f.role != "" })
		return fmt.Sprintf("%v, want %v first:\n%s", got, want, printed),
			len(got) == want[0].number && slices.Equal(got[:len(got)-len(former)], want) && !hasOthers
	})
}

func TestTree(t *testing.T) {
	t.Parallel()
	const printed = `Name:            rollouts-demo
Status:          ॥ Paused

NAME                                       KIND        STATUS        AGE  INFO
⟳ rollouts-demo                            Rollout     ॥ Paused      95s
├──# revision:3
│  └──⧉ rollouts-demo-5747959bdb           ReplicaSet  ✔ Healthy     13s  canary
│     └──□ rollouts-demo-5747959bdb-fdrsg  Pod         ✔ Running     13s  ready:1/1
├──# revision:2
│  └──⧉ rollouts-demo-6cf78c66c5           ReplicaSet  ✔ Healthy     95s  stable
│     ├──□ rollouts-demo-6cf78c66c5-8wl6h  Pod         ✔ Running     94s  ready:1/1
│     └──□ rollouts-demo-6cf78c66c5-zrgd4  Pod         ✔ Running     94s  ready:1/1
└──# revision:1
   └──⧉ rollouts-demo-687d76d795           ReplicaSet  ✔ Healthy     99s  delay:12s
      └──□ rollouts-demo-687d76d795-5gqm2  Pod         ✔ Running     99s  ready:1/1
`
	want := []revision{{3, "canary", 1}, {2, "stable", 2}, {1, "", 1}}
	if diff := cmp.Diff(want, tree(printed), cmp.AllowUnexported(revision{})); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
}
