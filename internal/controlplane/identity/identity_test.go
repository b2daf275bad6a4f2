package identity

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// peer is the address of the proxy.
var peer = netip.MustParseAddr("10.0.0.7")

// api is an API server with a clock.
type api struct {
	now     time.Time
	status  authenticationv1.TokenReviewStatus
	err     error
	reviews int
}

func (a *api) review(
	ctx context.Context, review *authenticationv1.TokenReview,
) (*authenticationv1.TokenReview, error) {
	a.reviews++
	if _, hasDeadline := ctx.Deadline(); !hasDeadline || len(review.Spec.Audiences) != 1 || review.Spec.Audiences[0] != Audience {
		return nil, errors.New("a review without a deadline or audience")
	}
	return &authenticationv1.TokenReview{Status: a.status}, a.err
}

// newVerifier returns a Verifier of an API server that accepts tokens of a Pod.
func newVerifier() (*Verifier, *api) {
	a := &api{now: time.Unix(1_800_000_000, 0), status: accepted("team", "kedify-proxy-1")}
	return New(a.review, func() time.Time { return a.now }), a
}

// accepted returns the review of a Pod's token.
func accepted(namespace, pod string) authenticationv1.TokenReviewStatus {
	return authenticationv1.TokenReviewStatus{
		Authenticated: true, Audiences: []string{Audience},
		User: authenticationv1.UserInfo{
			Username: "system:serviceaccount:" + namespace + ":default",
			Extra:    map[string]authenticationv1.ExtraValue{podKey: {pod}},
		},
	}
}

// token returns an Authorization header with a token that expires at a time.
func token(subject string, expires time.Time) string {
	claims := fmt.Sprintf(`{"sub": %q, "exp": %d}`, subject, expires.Unix())
	return "Bearer e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

// TestVerifyReviewsOnce has a token that is used again and again, until the review is too old or the token expires.
func TestVerifyReviewsOnce(t *testing.T) {
	t.Parallel()
	v, a := newVerifier()
	long, short := token("a", a.now.Add(time.Hour)), token("b", a.now.Add(time.Minute))
	expect := func(when, header string, reviews int) {
		t.Helper()
		pod, err := v.Verify(t.Context(), peer, header)
		if err != nil || pod != (Pod{"team", "kedify-proxy-1", "default"}) || a.reviews != reviews {
			t.Errorf("%s: %v, %v after %d reviews; want %d", when, pod, err, a.reviews, reviews)
		}
	}
	expect("first", long, 1)
	expect("again", long, 1)
	expect("with a line feed of the file", long+"\n", 1)
	expect("another token", short, 2)
	a.now = a.now.Add(time.Minute + time.Second)
	expect("a minute later", long, 2)
	expect("an expired token", short, 3)
	a.now = a.now.Add(time.Minute)
	expect("after the longest time", long, 4)
}

func TestVerifyRejects(t *testing.T) {
	t.Parallel()
	valid := func(a *api) string { return token("a", a.now.Add(time.Hour)) }
	for name, test := range map[string]struct {
		header func(*api) string
		change func(*api)
		want   error
	}{
		"another scheme":     {header: func(*api) string { return "Basic YTpi" }, want: ErrInvalid},
		"no token":           {header: func(*api) string { return "Bearer " }, want: ErrInvalid},
		"no JSON":            {header: func(*api) string { return "Bearer a.YQ.c" }, want: ErrInvalid},
		"a long token":       {header: func(a *api) string { return valid(a) + strings.Repeat("x", maxToken) }, want: ErrInvalid},
		"not authenticated":  {header: valid, change: func(a *api) { a.status.Authenticated = false }, want: ErrInvalid},
		"another audience":   {header: valid, change: func(a *api) { a.status.Audiences = []string{"api"} }, want: ErrInvalid},
		"no audience":        {header: valid, change: func(a *api) { a.status.Audiences = nil }, want: ErrInvalid},
		"a user":             {header: valid, change: func(a *api) { a.status.User.Username = "team:default" }, want: ErrInvalid},
		"not bound to a Pod": {header: valid, change: func(a *api) { a.status.User.Extra = nil }, want: ErrInvalid},
		"no permission": {header: valid, change: func(a *api) {
			a.err = apierrors.NewForbidden(authenticationv1.Resource("tokenreviews"), "", nil)
		}, want: ErrForbidden},
		"no answer": {header: valid, change: func(a *api) { a.err = errors.New("down") }, want: ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, a := newVerifier()
			if test.change != nil {
				test.change(a)
			}
			header := test.header(a)
			pod, err := v.Verify(t.Context(), peer, header)
			if pod != (Pod{}) || !errors.Is(err, test.want) {
				t.Errorf("%v, %v; want %v", pod, err, test.want)
			}
			if token := strings.TrimPrefix(header, "Bearer "); token != "" && strings.Contains(err.Error(), token) {
				t.Errorf("the error contains the token: %v", err)
			}
			a.status, a.err = accepted("team", "kedify-proxy-1"), nil
			if pod, err := v.Verify(t.Context(), peer, valid(a)); err != nil || pod.Namespace != "team" {
				t.Errorf("afterwards: %v, %v", pod, err)
			}
		})
	}
	v, a := newVerifier()
	if pod, err := v.Verify(t.Context(), peer, ""); pod != (Pod{}) || err != nil || a.reviews != 0 {
		t.Errorf("without a header: %v, %v, %d reviews", pod, err, a.reviews)
	}
}

// TestVerifyDuringAnOutage has an API server that reviews no tokens, or forbids it because it has just started. A token
// that it has accepted before counts until it expires or is rejected. Others wait.
func TestVerifyDuringAnOutage(t *testing.T) {
	t.Parallel()
	v, a := newVerifier()
	known, other := token("a", a.now.Add(time.Hour)), token("b", a.now.Add(time.Hour))
	expect := func(when, header string, want error) {
		t.Helper()
		pod, err := v.Verify(t.Context(), peer, header)
		if !errors.Is(err, want) || (err == nil) != (pod == Pod{"team", "kedify-proxy-1", "default"}) {
			t.Errorf("%s: %v, %v; want %v", when, pod, err, want)
		}
	}
	down := errors.New("connection refused")
	expect("before", known, nil)
	a.err, a.now = down, a.now.Add(maxAge+time.Second)
	expect("a known token", known, nil)
	expect("a new token", other, ErrUnavailable)
	a.err = apierrors.NewForbidden(authenticationv1.Resource("tokenreviews"), "", nil)
	expect("a known token while all are forbidden", known, nil)
	expect("a new token while all are forbidden", other, ErrUnavailable)
	a.now = a.now.Add(time.Hour)
	expect("an expired token", known, ErrUnavailable)

	a.err, known = nil, token("c", a.now.Add(time.Hour))
	expect("after the outage", known, nil)
	a.now = a.now.Add(maxAge + time.Second)
	a.status.Authenticated, a.status.Error = false, "the Pod is gone"
	expect("the token of a deleted Pod", known, ErrInvalid)
	a.err = down
	expect("the token of a deleted Pod in the next outage", known, ErrUnavailable)
}

// TestOnePeerCannotUseAllReviews has a peer that sends more tokens than are reviewed at a time, while the API server
// does not answer. The clock of timeouts is that of synctest.
func TestOnePeerCannotUseAllReviews(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls sync.WaitGroup
		answered := make(chan struct{})
		v := New(func(context.Context, *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error) {
			<-answered
			return &authenticationv1.TokenReview{Status: accepted("team", "kedify-proxy-1")}, nil
		}, time.Now)
		start := func(from netip.Addr, subject string) <-chan error {
			result := make(chan error, 1)
			calls.Go(func() {
				_, err := v.Verify(t.Context(), from, token(subject, time.Now().Add(time.Hour)))
				result <- err
			})
			synctest.Wait()
			return result
		}
		var results []<-chan error
		for i := range maxPerPeer {
			results = append(results, start(peer, strconv.Itoa(i)))
		}
		if err := <-start(peer, "one more"); !errors.Is(err, ErrUnavailable) {
			t.Errorf("one more review of the peer: %v", err)
		}
		results = append(results, start(netip.MustParseAddr("10.0.0.8"), "other"))
		close(answered)
		calls.Wait()
		for _, result := range results {
			if err := <-result; err != nil {
				t.Error(err)
			}
		}
		if err := <-start(peer, "later"); err != nil || len(v.perPeer) != 0 {
			t.Errorf("afterwards: %v, %v", err, v.perPeer)
		}
	})
}

// TestReviewsEndInTime has an API server that answers no review. All tokens wait, each for a limited time.
func TestReviewsEndInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := New(func(ctx context.Context, _ *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, time.Now)
		var calls sync.WaitGroup
		for i := range 2 * maxRunning {
			calls.Go(func() {
				from := netip.AddrFrom4([4]byte{10, 0, 1, byte(i)})
				_, err := v.Verify(t.Context(), from, token(strconv.Itoa(i), time.Now().Add(time.Hour)))
				if !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("review %d: %v", i, err)
				}
			})
		}
		calls.Wait()
		if len(v.running) != 0 || len(v.perPeer) != 0 {
			t.Errorf("%d reviews are still running, of %v", len(v.running), v.perPeer)
		}
	})
}

// TestVerifyWithManyTokens has more tokens than fit in memory: all are verified, and memory is bounded.
func TestVerifyWithManyTokens(t *testing.T) {
	t.Parallel()
	v, a := newVerifier()
	from := netip.MustParseAddr("10.0.1.0")
	for i := range maxReviews + 10 {
		from = from.Next()
		if _, err := v.Verify(t.Context(), from, token(strconv.Itoa(i), a.now.Add(time.Hour))); err != nil {
			t.Fatal(err)
		}
	}
	if len(v.reviews) != maxReviews || a.reviews != maxReviews+10 {
		t.Errorf("%d in memory after %d reviews", len(v.reviews), a.reviews)
	}
	a.now = a.now.Add(maxAge)
	if _, err := v.Verify(t.Context(), peer, token("new", a.now.Add(time.Hour))); err != nil || len(v.reviews) != 1 {
		t.Errorf("later: %v, %d in memory", err, len(v.reviews))
	}
}

// TestOnePeerCannotFillTheMemory has a peer with many valid tokens. Only its latest ones are in memory, and the review
// of another peer stays.
func TestOnePeerCannotFillTheMemory(t *testing.T) {
	t.Parallel()
	v, a := newVerifier()
	other, expires := netip.MustParseAddr("10.0.0.8"), a.now.Add(time.Hour)
	verify := func(from netip.Addr, subject, reviews int) {
		t.Helper()
		_, err := v.Verify(t.Context(), from, token(strconv.Itoa(subject), expires))
		if err != nil || a.reviews != reviews {
			t.Errorf("token %d of %s: %v after %d reviews; want %d", subject, from, err, a.reviews, reviews)
		}
	}
	verify(other, 0, 1)
	const last = 2 * maxPeerReviews
	for i := range last {
		a.now = a.now.Add(time.Second)
		verify(peer, i+1, i+2)
	}
	if len(v.reviews) != 1+maxPeerReviews {
		t.Errorf("%d reviews in memory", len(v.reviews))
	}
	verify(other, 0, last+1)
	verify(peer, last, last+1)
	verify(peer, last-maxPeerReviews+1, last+1)
	verify(peer, last-maxPeerReviews, last+2)
}
