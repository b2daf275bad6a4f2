package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/cookiejar"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
	"github.com/kedify/argo-rollouts-plugin/test/kit/stall"
	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

const (
	// users is the number of users with a cookie jar that arrive at each step, perStep the number of requests of each of
	// them at each step, and atOnce the number of users that send at the same time.
	users, perStep, atOnce = 100, 10, 8
	// mostSigmas is the maximum distance of the share of new users from the weight.
	mostSigmas = 4
	// sessionCookie begins the name of the cookie in testdata/sessions.yaml. The hash of the canary follows.
	sessionCookie = "side-"
)

// user is a user with a cookie jar. A user opens a connection for each request, because http.Client repeats failed
// requests on reused ones, and because Envoy drains the connections of a listener whose filters change.
type user struct {
	client *http.Client
	// version is the version of the first response; empty before that.
	version string
}

// newUsers returns users without cookies.
func (c *guideRun) newUsers(t *testing.T, n int) []*user {
	t.Helper()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", c.addresses[c.proxy.service])
	}
	all := make([]*user, 0, n)
	for range n {
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &user{client: &http.Client{
			Jar: jar, Timeout: await.Patience(), Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true},
		}})
	}
	return all
}

// ask sends one request. It returns the version of the app, and whether the response sets the cookie.
func (c *guideRun) ask(ctx context.Context, u *user) (version string, isSet bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.host+c.path, http.NoBody)
	if err != nil {
		return "", false, err
	}
	response, err := u.client.Do(request)
	if err != nil {
		return "", false, err
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return "", false, err
	}
	if response.StatusCode != http.StatusOK {
		return "", false, fmt.Errorf("%w: status %d: %.100q", errUnanswered, response.StatusCode, body)
	}
	for _, cookie := range response.Cookies() {
		isSet = isSet || strings.HasPrefix(cookie.Name, sessionCookie)
	}
	return strings.Trim(string(body), "\"\n"), isSet, nil // a string in JSON
}

// awaitSessions waits until the proxy sets the cookie for new users, or no longer does, many times in a row: its
// workers apply a route one after the other.
func (c *guideRun) awaitSessions(t *testing.T, wanted bool) {
	t.Helper()
	inRow, last := 0, ""
	await.Described(t, fmt.Sprintf("new users to get a cookie: %v", wanted), func() bool {
		version, isSet, err := c.ask(t.Context(), c.newUsers(t, 1)[0])
		last = fmt.Sprintf("%s, cookie %v, error %v; %s", version, isSet, err, c.state())
		if err != nil {
			invariant.Broken(t, invariant.FailedRequests, "of a new user: %v", err)
		}
		inRow++
		if isSet != wanted || err != nil {
			inRow = 0
		}
		return inRow == installed
	}, func() string { return last })
}

// visit has users send requests, all of which must be answered, and each user's by one version: that of the user's
// first request if there was one.
func (c *guideRun) visit(t *testing.T, when string, all []*user) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(atOnce)
	changed := make([]string, len(all))
	for i, u := range all {
		group.Go(func() error {
			for number := range perStep {
				version, _, err := c.ask(t.Context(), u)
				if err != nil {
					return fmt.Errorf("%s: request %d of user %d: %w", when, number+1, i, err)
				}
				if u.version == "" {
					u.version = version
				}
				if version != u.version {
					changed[i] = fmt.Sprintf("request %d of user %d from %s to %s", number+1, i, u.version, version)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		invariant.Broken(t, invariant.FailedRequests, "%v", err)
	}
	count := 0
	for _, change := range changed {
		if change == "" {
			continue
		}
		if count++; count == 1 {
			t.Logf("%s: the first user that changed version: %s", when, change)
		}
	}
	t.Logf("%s: %d users, %d requests, %d users changed version", when, len(all), len(all)*perStep, count)
	if count > 0 {
		invariant.Broken(t, invariant.Split, "%s: %d of %d users changed version; %s", when, count, len(all), c.seen.Get())
	}
}

// checkArrived checks the share of a version among users that have just arrived.
func checkArrived(t *testing.T, when string, all []*user, version string, weight int) {
	t.Helper()
	split := stats.Split{Total: len(all)}
	for _, u := range all {
		if u.version == version {
			split.Hits++
		}
	}
	sigmas := split.Sigmas(float64(weight) / 100)
	t.Logf("%s: %d of %d new users are on %s (%.1f σ)", when, split.Hits, split.Total, version, sigmas)
	if math.Abs(sigmas) > mostSigmas {
		invariant.Broken(t, invariant.Split, "%s: %d of %d new users are on %s, weight %d", when, split.Hits, split.Total,
			version, weight)
	}
}

// testSessions takes users with cookie jars through a canary with stickiness: 20 %, 50 %, and an abort.
func testSessions(t *testing.T, w environment, p proxy) { //nolint:thelper // a subtest
	w.apply(t, "my-app", p.manifest)
	w.applyFiles(t, filepath.Join("testdata", "sessions.yaml"))
	w.explainFailure(t, "rollout,httproute")
	c := &guideRun{environment: w, proxy: p, stalls: stall.Watch(t), guide: guide{
		rollout: "sessions", container: "app", route: "sessions", stable: "sessions-stable", canary: "sessions-canary",
		host: "sessions.example.com", path: "/my-app", colors: []string{"v1.0.0", "v1.1.0"},
	}}
	c.watch(t)
	c.awaitPromotion(t)
	c.awaitEnd(t)
	c.awaitAnswers(t)
	c.awaitSessions(t, false)

	c.setImage(t, "my-registry.example.com/my-app:v1.1.0")
	c.awaitWeight(t, 20)
	c.awaitSessions(t, true)
	early := c.newUsers(t, users)
	c.visit(t, "at 20 %", early)
	checkArrived(t, "at 20 %", early, "v1.1.0", 20)

	// A growing weight moves no user: it applies to new ones.
	c.promote(t)
	c.awaitWeight(t, 50)
	c.visit(t, "at 50 %, users of 20 %", early)
	late := c.newUsers(t, users)
	c.visit(t, "at 50 %, new users", late)
	checkArrived(t, "at 50 %", late, "v1.1.0", 50)

	c.abort(t)
	c.awaitEnd(t)
	c.awaitSessions(t, false)
	all := slices.Concat(early, late)
	for _, u := range all {
		u.version = "v1.0.0"
	}
	c.visit(t, "after the abort", all)
}
