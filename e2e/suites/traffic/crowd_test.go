package traffic

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
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
	line.check(t, len(c.lines) == 0)
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

// check checks a line. The proxies set all cookies in the first one. Failed requests count in the row.
func (l stickyLine) check(t *testing.T, isFirst bool) {
	t.Helper()
	cookies := 0
	if isFirst {
		cookies = stickyUsers
	}
	if l.sigmas > visitors.MostSigmas {
		invariant.Broken(t, invariant.UnexpectedWeights, "%s: %d of %d users on the canary, %.1f σ from weight %d", l.name,
			l.canary, stickyUsers, l.sigmas, l.weight)
	}
	isEnd := l.weight == 0
	if l.others > 0 || l.changed > 0 || l.returned > 0 && !isEnd || l.joined > 0 && isEnd {
		t.Errorf("%s: %d users moved to the canary, %d back, %d otherwise, %d between the two requests", l.name, l.joined,
			l.returned, l.others, l.changed)
	}
	if l.cookies != cookies || l.repeats > 0 {
		t.Errorf("%s: %d cookies were set, want %d; %d requests were sent again", l.name, l.cookies, cookies, l.repeats)
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
