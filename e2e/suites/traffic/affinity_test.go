package traffic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

const (
	// users is the number of users with a cookie jar, perUser the number of requests of each in each state.
	users, perUser = 10, 50
	// proxyCookie is the cookie that the proxies set.
	proxyCookie = "kedify-session"
)

// browse returns a client that connects to the Ingress controller, whatever the URL is. It uses each connection once,
// because http.Transport repeats failed requests on reused ones.
func (s *suite) browse(jar http.CookieJar) *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", s.ingress)
	}
	return &http.Client{
		Jar: jar, Timeout: await.Patience(), Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true},
	}
}

// askSticky sends a request and returns the name of the Pod, and the cookies that are set.
func askSticky(ctx context.Context, client *http.Client) (pod string, cookies []*http.Cookie, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+stickyHost+"/color", http.NoBody)
	if err != nil {
		return "", nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", nil, err
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return "", nil, err
	}
	if response.StatusCode != http.StatusOK {
		return "", nil, fmt.Errorf("status %d: %.100q", response.StatusCode, body)
	}
	return string(body), response.Cookies(), nil
}

// newJars returns the cookie jars of the users. They keep the cookies of all states.
func newJars(t *testing.T) (jars []http.CookieJar) {
	t.Helper()
	for range users {
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		jars = append(jars, jar)
	}
	return jars
}

// keepPod sends the requests of a user in one state. All of them must be answered by one Pod.
func (s *suite) keepPod(ctx context.Context, jar http.CookieJar) error {
	client := s.browse(jar)
	first := ""
	for number := range perUser {
		pod, _, err := askSticky(ctx, client)
		switch {
		case err != nil:
			return fmt.Errorf("request %d: %w", number+1, err)
		case first == "":
			first = pod
		case pod != first:
			return fmt.Errorf("request %d is answered by %s, the first one by %s", number+1, pod, first)
		}
	}
	return nil
}

// awaitAffinity waits until the cookies of new users come from the proxies, or from the Ingress controller.
func (s *suite) awaitAffinity(t *testing.T, in state) {
	t.Helper()
	isByProxies := in == wired || in == canary
	seen := ""
	await.Described(t, fmt.Sprintf("%s: a cookie of the proxies: %v", in, isByProxies), func() bool {
		_, cookies, err := askSticky(t.Context(), s.browse(nil))
		seen = fmt.Sprint(cookies, err)
		return err == nil && len(cookies) == 1 && (cookies[0].Name == proxyCookie) == isByProxies
	}, func() string { return seen })
	t.Logf("%s: cookies of new users %s", in, seen)
}
