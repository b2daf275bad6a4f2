package visitors_test

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/test/kit/visitors"
)

// read returns the version in a body.
func read(body []byte) (string, error) {
	version, isVersion := strings.CutPrefix(string(body), "version ")
	if !isVersion {
		return "", errors.New("no version")
	}
	return version, nil
}

// TestVisit: every user keeps the own cookies, a failed request is an error of its user only, and each run has the same
// ids of requests.
func TestVisit(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch cookie, err := r.Cookie("side"); {
		case r.Header.Get("X-User") == "broken":
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.Header.Get("X-User") == "unknown":
			_, _ = fmt.Fprint(w, "nothing")
		case err == nil:
			_, _ = fmt.Fprint(w, "version "+cookie.Value)
		default:
			id := r.Header.Get("X-Request-Id")
			http.SetCookie(w, &http.Cookie{Name: "side", Value: id})
			_, _ = fmt.Fprint(w, "version "+id)
		}
	}))
	t.Cleanup(server.Close)
	crowd := func() *visitors.Crowd {
		c, err := visitors.New(20, server.Client().Transport)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := crowd()
	c.Headers[3] = http.Header{"X-User": {"broken"}}
	c.Headers[5] = http.Header{"X-User": {"unknown"}}
	first, second := c.Visit(t.Context(), server.URL, read), c.Visit(t.Context(), server.URL, read)
	if first.Failed() != 2 || first.Count("") != 2 || first.Cookies() != 18 || second.Cookies() != 0 {
		t.Errorf("%d failed, %d without a version, %d cookies, then %d", first.Failed(), first.Count(""), first.Cookies(),
			second.Cookies())
	}
	if err := first.Err(); err == nil || !strings.HasPrefix(err.Error(), "user 3: status 503") {
		t.Errorf("the first error is %v", err)
	}
	if moves := second.Moves(first); len(moves) > 0 {
		t.Errorf("users moved: %v", moves)
	}
	other := new(http.Transport)
	t.Cleanup(other.CloseIdleConnections)
	some := c.First(2).Through(other).Visit(t.Context(), server.URL, read)
	if diff := cmp.Diff(first.Backends[:2], some.Backends); diff != "" {
		t.Errorf("the first users have other cookies through another transport (-want +got):\n%s", diff)
	}
	again := crowd().Visit(t.Context(), server.URL, read)
	if again.Backends[7] != first.Backends[7] || again.Backends[7] == again.Backends[8] || again.Err() != nil {
		t.Errorf("ids %q and %q, in the first run %q: %v", again.Backends[7], again.Backends[8], first.Backends[7],
			again.Err())
	}
}

// TestRepeats: a request that http.Transport sends again over another connection counts.
func TestRepeats(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 2 {
			panic(http.ErrAbortHandler)
		}
		_, _ = fmt.Fprint(w, "version a")
	}))
	t.Cleanup(server.Close)
	c, err := visitors.New(1, server.Client().Transport)
	if err != nil {
		t.Fatal(err)
	}
	for number, want := range []int{0, 1, 0} {
		visits := c.Visit(t.Context(), server.URL, read)
		if got := visits.Repeats(); got != want || visits.Err() != nil {
			t.Errorf("visit %d: %d repeats, want %d: %v", number, got, want, visits.Err())
		}
	}
}

// TestMoves compares two requests of each user.
func TestMoves(t *testing.T) {
	t.Parallel()
	before := visitors.Visits{Backends: []string{"a", "a", "a", "b", "b", ""}}
	now := visitors.Visits{Backends: []string{"a", "b", "b", "a", "", "b"}}
	want := map[string]int{visitors.Move("a", "b"): 2, visitors.Move("b", "a"): 1}
	if diff := cmp.Diff(want, now.Moves(before)); diff != "" {
		t.Errorf("moves (-want +got):\n%s", diff)
	}
}

// TestSigmas compares shares with weights.
func TestSigmas(t *testing.T) {
	t.Parallel()
	users := visitors.Visits{Backends: make([]string, 400)}
	for i := range 110 {
		users.Backends[i] = "canary"
	}
	for share, want := range map[float64]float64{0.2: 3.75, 0.275: 0, 0: math.Inf(1), 1: math.Inf(1)} {
		if got := users.Sigmas("canary", share); math.Abs(got-want) > 1e-9 {
			t.Errorf("a share of %v deviates by %v σ, want %v", share, got, want)
		}
	}
	if got := users.Sigmas("none", 0); got != 0 {
		t.Errorf("no user of a version without weight deviates by %v σ", got)
	}
}
