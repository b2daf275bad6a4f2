package traffic

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/visitors"
)

const (
	// stickyUsers is the number of users of the sticky canaries, each with a cookie jar.
	stickyUsers = 2000
	// proxyPort is the port of the proxies for HTTP.
	proxyPort = 8080
)

// stickyCanaries is a Rollout whose canaries are sticky, with its users.
type stickyCanaries struct {
	app

	row *row
	// proxies are the same users, with requests through each of the two proxies.
	proxies []*visitors.Crowd
	// lines are the lines of the table.
	lines []stickyLine
	last  visitors.Visits
}

// stickyLine contains the results of two requests of each user.
type stickyLine struct {
	name   string
	weight int
	canary int
	sigmas float64
	// joined and returned are the users that have moved to the canary and back since the line before, others those who
	// moved in any other way. changed are the users whose version differs between the two requests.
	joined, returned, others, changed int
	cookies, failed, repeats          int
}

// sides are the colours of the versions of a canary.
type sides struct{ stable, canary string }

// playStickyCanaries promotes a sticky canary through three weights, and aborts the next one at the second. Users move
// to a canary only while its weight rises, and back only in the abort.
func (s *suite) playStickyCanaries(t *testing.T) {
	t.Helper()
	c := s.installCrowd(t)
	defer func() { t.Logf("\n%s", c.table()) }()
	first := sides{stable: "blue", canary: "yellow"}
	c.setImage(t, first.canary)
	at20 := c.visitStep(t, first, 0, 20)
	c.visitStep(t, first, 1, 50)
	c.visitStep(t, first, 2, 80)
	c.await(t, "healthy", kube.Rollout.Healthy)
	c.awaitNoCanary(t)
	c.visit(t, "promoted", first, 100)

	second := sides{stable: "yellow", canary: "green"}
	c.setImage(t, second.canary)
	again := c.visitStep(t, second, 0, 20)
	c.awaitPause(t, 3)
	c.visit(t, "canary green, setWeight: 50", second, 50)
	c.Argo(t, "abort", c.name)
	c.awaitNoCanary(t)
	c.visit(t, "aborted", second, 0)
	for user := range stickyUsers {
		if (at20.Backends[user] == first.canary) != (again.Backends[user] == second.canary) {
			t.Errorf("user %d was on %s at 20 %%, and is on %s at 20 %% of the next canary", user, at20.Backends[user],
				again.Backends[user])
		}
	}
}

// installCrowd creates the Rollout, and the users.
func (s *suite) installCrowd(t *testing.T) *stickyCanaries {
	t.Helper()
	s.Do(t, "apply", "-f", "crowd.yaml")
	c := &stickyCanaries{
		app: app{s.Kubectl, "crowd", true, "crowd-stable"},
		row: s.row(fmt.Sprintf("%d users with a cookie jar, sticky canaries", stickyUsers)),
	}
	c.await(t, "healthy", kube.Rollout.Healthy)
	s.Do(t, "wait", "httpso/crowd", "--for=condition=Programmed")
	addresses := strings.Fields(s.Do(t, "get", "pods", "-l", "app=kedify-proxy", "-o",
		"jsonpath={.items[*].status.podIP}"))
	if len(addresses) != 2 {
		t.Fatalf("the proxies have the addresses %v, want two", addresses)
	}
	for _, address := range addresses {
		transport := s.transportTo(t, address)
		if len(c.proxies) > 0 {
			c.proxies = append(c.proxies, c.proxies[0].Through(transport))
			continue
		}
		users, err := visitors.New(stickyUsers, transport)
		if err != nil {
			t.Fatal(err)
		}
		c.proxies = append(c.proxies, users)
	}
	return c
}

// transportTo returns a transport whose connections all go to one proxy.
func (s *suite) transportTo(t *testing.T, address string) *http.Transport {
	t.Helper()
	ip, err := netip.ParseAddr(address)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{
		MaxConnsPerHost: 16, MaxIdleConnsPerHost: 16,
		DialContext: func(ctx context.Context, _, _ string) (connection net.Conn, err error) {
			err = await.Until(ctx, "a connection to proxy "+address, func() bool {
				connection, err = s.inside.Dial(ctx, netip.AddrPortFrom(ip, proxyPort))
				return err == nil
			}, func() string { return fmt.Sprint(err) })
			return connection, err
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// visitStep waits for the pause after the setWeight step with a number, counted from 0, sends the requests of the
// users, and promotes the Rollout to the next step.
func (c *stickyCanaries) visitStep(t *testing.T, of sides, number, weight int) visitors.Visits {
	t.Helper()
	c.awaitPause(t, 2*number+1)
	visits := c.visit(t, fmt.Sprintf("canary %s, setWeight: %d", of.canary, weight), of, weight)
	c.Argo(t, "promote", c.name)
	return visits
}

// visit sends two requests of each user, the second one through the other proxy, adds a line to the table, and checks
// it. It returns the first requests.
func (c *stickyCanaries) visit(t *testing.T, name string, of sides, weight int) visitors.Visits {
	t.Helper()
	turn := len(c.lines) % len(c.proxies)
	first := c.send(t, c.proxies[turn])
	second := c.send(t, c.proxies[(turn+1)%len(c.proxies)])
	line := stickyLine{
		name: name, weight: weight, canary: first.Count(of.canary),
		sigmas:  first.Sigmas(of.canary, float64(weight)/100),
		changed: total(second.Moves(first)), cookies: first.Cookies() + second.Cookies(),
		failed: first.Failed() + second.Failed(), repeats: first.Repeats() + second.Repeats(),
	}
	if len(c.lines) > 0 {
		moves := first.Moves(c.last)
		line.joined, line.returned = moves[visitors.Move(of.stable, of.canary)], moves[visitors.Move(of.canary, of.stable)]
		line.others = total(moves) - line.joined - line.returned
	}
	for _, problem := range line.problems(len(c.lines) == 0) {
		t.Errorf("%s: %s", name, problem)
	}
	c.lines, c.last = append(c.lines, line), second
	return first
}

// send sends one request of each user through a proxy, and records the results.
func (c *stickyCanaries) send(t *testing.T, users *visitors.Crowd) visitors.Visits {
	t.Helper()
	at := time.Now()
	visits := users.Visit(t.Context(), "http://"+crowdHost+"/color", func(body []byte) (string, error) {
		color, err := strconv.Unquote(string(body))
		if err != nil {
			return "", fmt.Errorf("body %.80q: %w", body, err)
		}
		return color, nil
	})
	for _, err := range visits.Errs {
		c.row.add(at, err)
	}
	return visits
}

// total returns the number of users that moved.
func total(moves map[string]int) (sum int) {
	for _, users := range moves {
		sum += users
	}
	return sum
}

// problems returns what is wrong with a line. The proxies set all cookies in the first one. Failed requests are not
// among the problems: they count in the row.
func (l stickyLine) problems(isFirst bool) (problems []string) {
	add := func(isWrong bool, format string, values ...any) {
		if isWrong {
			problems = append(problems, fmt.Sprintf(format, values...))
		}
	}
	cookies := map[bool]int{true: stickyUsers, false: 0}[isFirst]
	isEnd := l.weight == 0
	add(l.sigmas > visitors.MostSigmas, "%d of %d users on the canary, %.1f σ from its weight", l.canary, stickyUsers,
		l.sigmas)
	add(l.joined > 0 && isEnd, "%d users moved to the canary in its abort", l.joined)
	add(l.returned > 0 && !isEnd, "%d users moved back from the canary", l.returned)
	add(l.others > 0, "%d users moved to or from another version", l.others)
	add(l.changed > 0, "%d users changed the version between two requests", l.changed)
	add(l.cookies != cookies, "%d cookies were set, want %d", l.cookies, cookies)
	add(l.repeats > 0, "%d requests were sent again", l.repeats)
	return problems
}

// TestStickyLine: a good line has no problem, and each wrong value is one.
func TestStickyLine(t *testing.T) {
	t.Parallel()
	rising := stickyLine{weight: 50, canary: 990, sigmas: 0.4, joined: 590}
	aborted := stickyLine{returned: 990}
	for name, c := range map[string]struct {
		line   stickyLine
		change func(l *stickyLine)
		want   string
	}{
		"good":            {rising, func(*stickyLine) {}, ""},
		"failed requests": {rising, func(l *stickyLine) { l.failed = 3 }, ""},
		"an abort":        {aborted, func(*stickyLine) {}, ""},
		"too many": {
			rising, func(l *stickyLine) { l.sigmas = 3.1 },
			"990 of 2000 users on the canary, 3.1 σ from its weight",
		},
		"left after an abort": {
			aborted, func(l *stickyLine) { l.canary, l.sigmas = 1, math.Inf(1) },
			"1 of 2000 users on the canary, +Inf σ from its weight",
		},
		"joined in an abort": {
			aborted, func(l *stickyLine) { l.joined = 1 },
			"1 users moved to the canary in its abort",
		},
		"back": {
			rising, func(l *stickyLine) { l.returned = 2 },
			"2 users moved back from the canary",
		},
		"a version before": {
			rising, func(l *stickyLine) { l.others = 1 },
			"1 users moved to or from another version",
		},
		"changed": {
			rising, func(l *stickyLine) { l.changed = 1 },
			"1 users changed the version between two requests",
		},
		"a cookie set again": {rising, func(l *stickyLine) { l.cookies = 1 }, "1 cookies were set, want 0"},
		"sent again":         {rising, func(l *stickyLine) { l.repeats = 1 }, "1 requests were sent again"},
		"changed and returned": {
			rising, func(l *stickyLine) { l.changed, l.returned = 1, 1 },
			"1 users moved back from the canary; 1 users changed the version between two requests",
		},
	} {
		c.change(&c.line)
		if got := strings.Join(c.line.problems(false), "; "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	rising.cookies = stickyUsers
	if got := rising.problems(true); len(got) > 0 {
		t.Errorf("the first line: %v", got)
	}
}

// table returns the lines as a table.
func (c *stickyCanaries) table() string {
	var table strings.Builder
	fmt.Fprintf(&table, "%-34s%8s%12s%6s%10s%10s%10s%12s%10s", fmt.Sprintf("%d users, 2 requests of each", stickyUsers),
		"weight", "on canary", "σ", "joined", "returned", "changed", "cookies set", "failed")
	for _, l := range c.lines {
		fmt.Fprintf(&table, "\n%-34s%8d%12d%6.1f%10d%10d%10d%12d%10d", l.name, l.weight, l.canary, l.sigmas, l.joined,
			l.returned, l.changed, l.cookies, l.failed)
	}
	return table.String()
}

// awaitNoCanary waits until the router has removed the weights, and all proxies have acknowledged that.
func (c *stickyCanaries) awaitNoCanary(t *testing.T) {
	t.Helper()
	var object kube.HTTPScaledObject
	await.Described(t, "no weights of "+c.name, func() bool {
		object = kube.HTTPScaledObject{}
		if err := json.Unmarshal([]byte(c.Do(t, "get", "httpso", c.name, "-o", "json")), &object); err != nil {
			t.Fatal(err)
		}
		_, has := object.Weights()
		return !has && object.Acked()
	}, func() string { return fmt.Sprint(object.Metadata.Annotations, object.AckedWeights()) })
}
