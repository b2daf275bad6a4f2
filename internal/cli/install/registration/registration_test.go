package registration_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/install/registration"
)

// entry returns an entry.
func entry() registration.Entry {
	return registration.Entry{Name: "kedify/http", Location: "https://example.com/new", SHA256: "abc"}
}

const added = `- name: "kedify/http"
  location: "https://example.com/new"
  sha256: "abc"
`

func TestMerge(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, text, want string }{
		{"nothing", "", added},
		{"an empty list", "[]", added},
		{"null", "null\n", added},
		{
			"another plugin with all it can have, and comments",
			"# ours first\n- name: somebody/else # keep\n  location: https://example.com/else\n  args: " +
				"[\"--flag=1\"]\n  headersFrom:\n    - secretRef:\n        name: token\n",
			"# ours first\n- name: somebody/else # keep\n  location: https://example.com/else\n  args: " +
				"[\"--flag=1\"]\n  headersFrom:\n    - secretRef:\n        name: token\n" + added,
		},
		{
			"an older version of itself, with arguments",
			"- name: kedify/http\n  args: [--log-level=debug]\n  location: https://example.com/old # from here\n  " +
				"sha256: old\n- name: somebody/else\n  location: file:///else\n",
			"- name: kedify/http\n  args: [--log-level=debug]\n  location: \"https://example.com/new\" # from " +
				"here\n  sha256: \"abc\"\n- name: somebody/else\n  location: file:///else\n",
		},
		{
			"no checksum so far", "- {name: kedify/http, location: https://example.com/new}",
			"- {name: kedify/http, location: 'https://example.com/new', sha256: \"abc\"}\n",
		},
		{
			"itself: every byte stays",
			"-   name:   kedify/http\n    location: 'https://example.com/new'\n    sha256: abc",
			"-   name:   kedify/http\n    location: 'https://example.com/new'\n    sha256: abc",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := registration.Merge(test.text, []registration.Entry{entry()})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			again, err := registration.Merge(got, []registration.Entry{entry()})
			if err != nil || again != got {
				t.Errorf("a second time it is (%v)\n%s", err, again)
			}
		})
	}
}

func TestMergeRejectsInvalidLists(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"{", "name: kedify/http", "- kedify/http", "text"} {
		if got, err := registration.Merge(text, []registration.Entry{entry()}); !errors.Is(err,
			registration.ErrMalformed) || got != "" {
			t.Errorf("%q becomes %q, %v", text, got, err)
		}
	}
}

func TestEntriesOfARelease(t *testing.T) {
	t.Parallel()
	one, two := strings.Repeat("1", 64), strings.Repeat("2", 64)
	sums := one + "  rollouts-plugin-kedify-linux-amd64\n" + two + "  gatewayapi-plugin-linux-amd64\n" + two +
		"  rollouts-plugin-kedify-linux-amd64.cdx.json\n"
	got, err := registration.Entries(registration.Routers(), "https://example.com/v1", "linux-amd64", sums)
	if err != nil {
		t.Fatal(err)
	}
	want := []registration.Entry{
		{
			Name: "argoproj-labs/gatewayAPI", Location: "https://example.com/v1/gatewayapi-plugin-linux-amd64",
			SHA256: two,
		},
		{Name: "kedify/http", Location: "https://example.com/v1/rollouts-plugin-kedify-linux-amd64", SHA256: one},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := registration.Entries([]string{"kedify/http"}, "", "linux-arm64", sums); !errors.Is(err,
		registration.ErrChecksum) {
		t.Errorf("a platform without a file: %v", err)
	}
	if _, err := registration.Entries([]string{"kedify/https"}, "", "linux-amd64", sums); err == nil ||
		!strings.Contains(err.Error(), "kedify/http") {
		t.Errorf("a router that does not exist: %v", err)
	}
}

func TestPlatform(t *testing.T) {
	t.Parallel()
	node := func(name, architecture string) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Status.NodeInfo.Architecture = architecture
		return n
	}
	cluster := &facts.Facts{Nodes: []corev1.Node{node("one", "amd64"), node("two", "arm64")}}
	if got, err := registration.Platform(cluster); !errors.Is(err, registration.ErrPlatform) {
		t.Errorf("of two platforms %q is chosen, %v", got, err)
	}
	cluster.Pods = []corev1.Pod{{Spec: corev1.PodSpec{NodeName: "two"}}}
	if got, err := registration.Platform(cluster); got != "linux-arm64" || err != nil {
		t.Errorf("the platform is %q, %v", got, err)
	}
}
