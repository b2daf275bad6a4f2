// Package visitors sends requests of many users with a cookie jar each, and compares which versions of an application
// answered them. It is for tests of sticky canaries.
package visitors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptrace"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

// atOnce is the number of requests in flight.
const atOnce = 8

// Crowd are users with a cookie jar each. The ids of their requests are pseudo-random: each run of a test has the same
// ones, so a user who is assigned by the id is on the same version in each run.
type Crowd struct {
	// Clients are the users' clients.
	Clients []*http.Client
	// Headers are additional headers of all requests of a user.
	Headers []http.Header

	random *rand.Rand
}

// New returns users who share a transport, and so its connections, as behind an Ingress.
func New(users int, transport http.RoundTripper) (*Crowd, error) {
	c := &Crowd{Headers: make([]http.Header, users)}
	c.random = rand.New(rand.NewPCG(7, 8)) //nolint:gosec // equal in each run
	for range users {
		jar, err := cookiejar.New(nil)
		if err != nil {
			return nil, fmt.Errorf("create a cookie jar: %w", err)
		}
		c.Clients = append(c.Clients, &http.Client{Transport: transport, Jar: jar})
	}
	return c, nil
}

// First returns the first users.
func (c *Crowd) First(users int) *Crowd {
	return &Crowd{Clients: c.Clients[:users], Headers: c.Headers[:users], random: c.random}
}

// Through returns the same users, with their cookies, whose requests use another transport.
func (c *Crowd) Through(transport http.RoundTripper) *Crowd {
	other := &Crowd{Headers: c.Headers, random: c.random}
	for _, client := range c.Clients {
		other.Clients = append(other.Clients, &http.Client{Transport: transport, Jar: client.Jar})
	}
	return other
}

// nextID returns an id as Envoy generates it.
func (c *Crowd) nextID() string {
	return fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", c.random.Uint32(), c.random.Uint32N(1<<16), c.random.Uint32N(1<<12),
		c.random.Uint32N(1<<12), c.random.Uint64N(1<<48))
}

// Visit sends one request of each user. backend returns which version sent a body.
func (c *Crowd) Visit(ctx context.Context, url string, backend func(body []byte) (string, error)) Visits {
	outcome := Visits{
		Backends: make([]string, len(c.Clients)), SetCookies: make([][]string, len(c.Clients)),
		Errs: make([]error, len(c.Clients)), repeats: new(atomic.Int64),
	}
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, client := range c.Clients {
		header := http.Header{"X-Request-Id": {c.nextID()}}
		maps.Copy(header, c.Headers[i])
		group.Go(func() error {
			body, cookies, err := get(ctx, client, url, header, outcome.repeats)
			if err == nil {
				outcome.Backends[i], err = backend(body)
			}
			outcome.SetCookies[i], outcome.Errs[i] = cookies, err
			return nil
		})
	}
	_ = group.Wait() // the errors are in the outcome
	return outcome
}

// get sends one request and returns the body and the cookies that are set. Every status but 200 is an error. It counts
// the attempts after the first in repeats.
func get(
	ctx context.Context, client *http.Client, url string, header http.Header, repeats *atomic.Int64,
) ([]byte, []string, error) {
	ctx, cancel := context.WithTimeout(ctx, await.Patience())
	defer cancel()
	attempts := 0
	defer func() { repeats.Add(int64(max(0, attempts-1))) }()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { attempts++ }})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, nil, err
	}
	request.Header = header
	response, err := client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return nil, nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("status %d: %.80s", response.StatusCode, body)
	}
	return body, response.Header.Values("Set-Cookie"), nil
}

// Visits are the outcomes of one request of each user.
type Visits struct {
	// Backends are the versions that answered; empty for a failed request.
	Backends []string
	// SetCookies are the values of Set-Cookie.
	SetCookies [][]string
	// Errs are the errors of failed requests, nil for the others.
	Errs []error

	repeats *atomic.Int64
}

// Repeats returns how often http.Transport has sent a request again, because its connection ended before the response.
func (v Visits) Repeats() int {
	if v.repeats == nil {
		return 0
	}
	return int(v.repeats.Load())
}

// Failed returns the number of failed requests.
func (v Visits) Failed() int {
	return len(v.Errs) - len(slices.DeleteFunc(slices.Clone(v.Errs), func(err error) bool { return err != nil }))
}

// Err returns the first error, or nil.
func (v Visits) Err() error {
	for user, err := range v.Errs {
		if err != nil {
			return fmt.Errorf("user %d: %w", user, err)
		}
	}
	return nil
}

// Count returns the number of users that a version has answered.
func (v Visits) Count(backend string) int {
	count := 0
	for _, name := range v.Backends {
		if name == backend {
			count++
		}
	}
	return count
}

// Cookies returns the number of cookies that were set.
func (v Visits) Cookies() int { return len(slices.Concat(v.SetCookies...)) }

// Moves returns the numbers of users whose version differs from before, by Move. A user with a failed request has not
// moved.
func (v Visits) Moves(before Visits) map[string]int {
	moves := map[string]int{}
	for i, name := range v.Backends {
		if from := before.Backends[i]; from != name && from != "" && name != "" {
			moves[Move(from, name)]++
		}
	}
	return moves
}

// Move returns the name of a move between two versions.
func Move(from, to string) string { return from + " → " + to }

// MostSigmas is how many standard deviations of the binomial distribution the share of a canary may deviate.
const MostSigmas = 3

// Sigmas returns the deviation of a version's share of the users from its weight, in standard deviations of the
// binomial distribution. share is from 0 to 1. For a share of 0 or 1 any deviation is infinite.
func (v Visits) Sigmas(backend string, share float64) float64 {
	return stats.Split{Hits: v.Count(backend), Total: len(v.Backends)}.Sigmas(share)
}
