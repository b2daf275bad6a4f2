package registration_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/install/registration"
)

// TestUnregisterRestoresTheList: after Register and Unregister the list is as before.
func TestUnregisterRestoresTheList(t *testing.T) {
	t.Parallel()
	const other = "# theirs\n- name: somebody/else # keep\n  location: https://example.com/else\n"
	const older = "- name: kedify/http\n  args: [--log-level=debug]\n  location: https://example.com/old # from " +
		"here\n  sha256: old\n"
	for _, test := range []struct {
		name, before string
		replace      bool
		registered   string
		after        string // only if it differs from before
	}{
		{name: "nothing", registered: added},
		{name: "an empty list", before: "[]", registered: added, after: "-"},
		{name: "next to another plugin", before: other, registered: other + added},
		{
			name: "replaces the entry of another owner and keeps its arguments", before: older + other, replace: true,
			registered: "- name: kedify/http\n  args: [--log-level=debug]\n  location: \"https://example.com/new\" " +
				"# from here\n  sha256: \"abc\"\n" + other,
		},
		{name: "a correct entry still belongs to its owner", before: added + other, registered: added + other},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			now := registration.State{Text: test.before}
			got, err := registration.Register(now, []registration.Entry{entry()}, test.replace)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.registered, got.Text); diff != "" {
				t.Errorf("registered (-want +got):\n%s", diff)
			}
			again, err := registration.Register(got, []registration.Entry{entry()}, false)
			if err != nil || again != got {
				t.Errorf("again: %+v, %v", again, err)
			}
			want := registration.State{Text: test.before}
			if test.after == "-" {
				want.Text = ""
			}
			unregistered, err := registration.Unregister(got)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, unregistered); diff != "" {
				t.Errorf("unregistered (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUpgradeReplacesOnlyOurEntry: a newer release replaces the entry, and Unregister restores the original one.
func TestUpgradeReplacesOnlyOurEntry(t *testing.T) {
	t.Parallel()
	const before = "- name: kedify/http\n  location: https://example.com/theirs\n- name: somebody/else\n  location: " +
		"file:///else\n"
	first, err := registration.Register(registration.State{Text: before}, []registration.Entry{entry()}, true)
	if err != nil {
		t.Fatal(err)
	}
	newer := registration.Entry{Name: "kedify/http", Location: "file:///newer"}
	second, err := registration.Register(first, []registration.Entry{newer}, false)
	if err != nil {
		t.Fatal(err)
	}
	if want := "- name: kedify/http\n  location: \"file:///newer\"\n- name: somebody/else\n  location: file:///else\n"; second.Text != want {
		t.Errorf("the text is\n%s", second.Text)
	}
	if names, err := registration.Registered(second); err != nil || !slices.Equal(names, []string{"kedify/http"}) {
		t.Errorf("%v are registered, %v", names, err)
	}
	if last, err := registration.Unregister(second); err != nil || last != (registration.State{Text: before}) {
		t.Errorf("unregistered: %+v, %v", last, err)
	}
}

func TestRegisterRejectsForeignEntries(t *testing.T) {
	t.Parallel()
	now := registration.State{Text: "- name: kedify/http\n  location: https://example.com/theirs\n"}
	_, err := registration.Register(now, []registration.Entry{entry()}, false)
	if !errors.Is(err, registration.ErrNotOwned) || !strings.Contains(err.Error(), "https://example.com/theirs") ||
		!strings.Contains(err.Error(), "--replace") {
		t.Errorf("error %v", err)
	}
	edited := registration.State{Record: "no JSON"}
	if _, err := registration.Register(edited, []registration.Entry{entry()}, false); !errors.Is(err,
		registration.ErrRecord) {
		t.Errorf("an edited record: %v", err)
	}
	if _, err := registration.Unregister(edited); !errors.Is(err, registration.ErrRecord) {
		t.Errorf("an edited record: %v", err)
	}
}

// TestOtherEditsAreKept: entries that others have added stay, and entries that others have removed are not restored.
func TestOtherEditsAreKept(t *testing.T) {
	t.Parallel()
	registered, err := registration.Register(registration.State{}, []registration.Entry{entry()}, false)
	if err != nil {
		t.Fatal(err)
	}
	const foreign = "- name: somebody/else\n  location: file:///else\n"
	for text, want := range map[string]string{foreign + registered.Text: foreign, foreign: foreign, "": ""} {
		got, err := registration.Unregister(registration.State{Text: text, Record: registered.Record})
		if err != nil || got != (registration.State{Text: want}) {
			t.Errorf("%q becomes %+v, %v", text, got, err)
		}
	}
}

func TestFilesOfAFolder(t *testing.T) {
	t.Parallel()
	got, err := registration.Files(registration.Routers(), "/plugins")
	want := []registration.Entry{
		{Name: "argoproj-labs/gatewayAPI", Location: "file:///plugins/gatewayapi-plugin"},
		{Name: "kedify/http", Location: "file:///plugins/rollouts-plugin-kedify"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := registration.Files([]string{"other"}, "/plugins"); err == nil {
		t.Error("a router that there is not has a file")
	}
}
