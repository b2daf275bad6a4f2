package envoy_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// startPaths starts apps for all paths and for /admin of one host, with a strictness.
func startPaths(t *testing.T, strictness translate.Strictness) *served {
	t.Helper()
	all := kit.NewScaledObject(namespace, "all", "all", 1, "app.example.com")
	admin := kit.NewScaledObject(namespace, "admin", "admin", 2, "app.example.com")
	admin.Spec.PathPrefixes = []string{"/admin"}
	options := translate.DefaultOptions()
	options.Strictness = strictness
	inputs := newInputs(t, []*backend{startBackend(t, "all"), startBackend(t, "admin")}, all, admin)
	resources := translated(t, inputs, options)
	s := serve(t, "DELTA_GRPC", resources)
	s.await(t, resources)
	return s
}

// seenBy sends a request and returns its status and what the app received.
func (s *served) seenBy(t *testing.T, protocol, path string, header http.Header) (status int, seen echoed) {
	t.Helper()
	status, body := s.request(t, protocol, "app.example.com", path, header)
	if status == http.StatusOK {
		if err := json.Unmarshal([]byte(body), &seen); err != nil {
			t.Fatalf("%s: %v: %s", path, err, body)
		}
	}
	return status, seen
}

// TestPathsThatAppsUnderstandDifferently sends paths that an app may read as one of /admin, with each action.
func TestPathsThatAppsUnderstandDifferently(t *testing.T) {
	t.Parallel()
	const escaped, upper, back, double = "/x%2f..%2fadmin", "/%2Fadmin", "/x%5c..%5cadmin", "//admin/x"
	type answers map[string]string // the app, or the status of an answer by the proxy
	const bad, moved = "Bad Request", "Temporary Redirect"
	const kept = moved // the app, a Go server, redirects to the path with one slash
	for name, test := range map[string]struct {
		strictness translate.Strictness
		want       answers
	}{
		"the defaults": {translate.Strictness{}, answers{escaped: "all", upper: "all", back: "all", double: kept}},
		"keep":         {translate.Strictness{EscapedSlashes: translate.Keep}, answers{escaped: "all", upper: "all"}},
		"reject": {translate.Strictness{EscapedSlashes: translate.Reject}, answers{
			escaped: bad, upper: bad, back: bad, double: kept,
		}},
		"redirect": {translate.Strictness{EscapedSlashes: translate.Redirect}, answers{
			escaped: moved, back: moved, double: kept,
		}},
		"unescape": {translate.Strictness{EscapedSlashes: translate.Unescape}, answers{escaped: "admin", back: "admin"}},
		"merge":    {translate.Strictness{MergeSlashes: true}, answers{double: "admin", escaped: "all"}},
		"unescape and merge": {translate.Strictness{EscapedSlashes: translate.Unescape, MergeSlashes: true}, answers{
			escaped: "admin", upper: "admin", back: "admin", double: "admin",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startPaths(t, test.strictness)
			for path, want := range test.want {
				for _, protocol := range protocols() {
					status, seen := s.seenBy(t, protocol, path, nil)
					got := seen.Backend
					if status != http.StatusOK {
						got = http.StatusText(status)
					}
					if got != want {
						t.Errorf("%s over %s: %s (app receives %q), want %s", path, protocol, got, seen.Path, want)
					}
				}
			}
		})
	}
}

// TestHeadersWithUnderscores sends a header that an app may read as X-User, with each action.
func TestHeadersWithUnderscores(t *testing.T) {
	t.Parallel()
	for action, want := range map[string]struct {
		status  int
		reaches bool
	}{
		"":               {http.StatusOK, true},
		translate.Keep:   {http.StatusOK, true},
		translate.Drop:   {http.StatusOK, false},
		translate.Reject: {http.StatusBadRequest, false},
	} {
		t.Run("action "+action, func(t *testing.T) {
			t.Parallel()
			s := startPaths(t, translate.Strictness{UnderscoreHeaders: action})
			status, seen := s.seenBy(t, "HTTP/1.1", "/", http.Header{"X_user": {"root"}, "X-User": {"me"}})
			if status != want.status || (len(seen.Header["X_user"]) == 1) != want.reaches {
				t.Errorf("%d, %v, want %+v", status, seen.Header, want)
			}
			if status == http.StatusOK && seen.Header.Get("X-User") != "me" {
				t.Errorf("header X-User: %v", seen.Header)
			}
		})
	}
}
