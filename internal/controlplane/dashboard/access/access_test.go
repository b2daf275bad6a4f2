package access_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/dashboard/access"
)

var errDown = errors.New("connection refused")

// api is an API server with one user, who may list the objects of namespace shop.
type api struct {
	now             time.Time
	isDown          bool
	tokens, reviews int
	asked           []authorizationv1.SubjectAccessReviewSpec
}

func (a *api) verifier() *access.Verifier {
	return access.New(access.Reviewer{Token: a.token, Access: a.access, Now: func() time.Time { return a.now }})
}

func (a *api) token(_ context.Context, review *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error) {
	if a.isDown {
		return nil, errDown
	}
	a.tokens++
	answer := *review
	if name, _, _ := strings.Cut(review.Spec.Token, "-"); name == "anna" || name == "bob" {
		answer.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{
			Username: name, Groups: []string{"team"}, Extra: map[string]authenticationv1.ExtraValue{"a": {"b"}},
		}}
	}
	return &answer, nil
}

func (a *api) access(
	_ context.Context, review *authorizationv1.SubjectAccessReview,
) (*authorizationv1.SubjectAccessReview, error) {
	if a.isDown {
		return nil, errDown
	}
	a.reviews++
	a.asked = append(a.asked, review.Spec)
	answer := *review
	about := review.Spec.ResourceAttributes
	answer.Status.Allowed = about.Namespace == "shop" && about.Resource == "httpscaledobjects"
	return &answer, nil
}

// TestUser has the headers of callers, and why they are rejected.
func TestUser(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		header string
		isDown bool
		want   error
	}{
		"a user":         {header: "Bearer anna"},
		"no header":      {want: access.ErrNoToken},
		"an empty token": {header: "Bearer  ", want: access.ErrNoToken},
		"another scheme": {header: "Basic anna", want: access.ErrInvalid},
		"another token":  {header: "Bearer eve", want: access.ErrInvalid},
		"no API server":  {header: "Bearer anna", isDown: true, want: access.ErrUnavailable},
		"a giant token":  {header: "Bearer " + string(make([]byte, 20<<10)), want: access.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &api{now: time.Unix(0, 0), isDown: test.isDown}
			if user, err := server.verifier().User(t.Context(), test.header); !errors.Is(err, test.want) || (err == nil) != (user != nil) {
				t.Errorf("%v, %v, want %v", user, err, test.want)
			}
		})
	}
}

// TestPermissions reviews the namespaces of a user, again after the maximum age of a review, and without the API server.
func TestPermissions(t *testing.T) {
	t.Parallel()
	server := &api{now: time.Unix(0, 0)}
	verifier := server.verifier()
	user, err := verifier.User(t.Context(), "Bearer anna")
	if err != nil {
		t.Fatal(err)
	}
	mayRead := func(namespace string) bool {
		t.Helper()
		isAllowed, err := user.MayRead(t.Context(), namespace, "httpscaledobjects")
		if err != nil {
			t.Fatal(err)
		}
		return isAllowed
	}
	for range 3 {
		for namespace, want := range map[string]bool{"": false, "shop": true, "bank": false} {
			if got := mayRead(namespace); got != want {
				t.Errorf("namespace %q: %v", namespace, got)
			}
		}
		if isAllowed, err := user.MayReadWorkloads(t.Context(), "shop"); isAllowed || err != nil {
			t.Errorf("the user may read Rollouts: %v, %v", isAllowed, err)
		}
		if isAllowed, err := user.MayRead(t.Context(), "shop", "interceptorroutes"); isAllowed || err != nil {
			t.Errorf("the user may list InterceptorRoutes: %v, %v", isAllowed, err)
		}
	}
	if server.reviews != 5 { // three namespaces, and Rollouts and InterceptorRoutes in one
		t.Errorf("%d reviews", server.reviews)
	}
	for _, asked := range server.asked {
		if asked.User != "anna" || len(asked.Groups) != 1 || len(asked.Extra) != 1 {
			t.Errorf("reviewed %+v", asked)
		}
	}
	server.now, server.isDown = server.now.Add(access.MaxAge), true
	if isAllowed, err := user.MayRead(t.Context(), "shop", "httpscaledobjects"); isAllowed || !errors.Is(err, access.ErrUnavailable) {
		t.Errorf("the permission outlives its review while the API server is down: %v, %v", isAllowed, err)
	}
	if _, err := verifier.User(t.Context(), "Bearer anna"); !errors.Is(err, access.ErrUnavailable) {
		t.Errorf("the token outlives its review: %v", err)
	}
	if server.isDown = false; !mayRead("shop") {
		t.Error("a failed review counts")
	}
}

// TestManyReviews has a user who asks for more permissions than are reviewed, also with a new token. After a while,
// some more are reviewed, and another user is not affected.
func TestManyReviews(t *testing.T) {
	t.Parallel()
	server := &api{now: time.Unix(0, 0)}
	verifier := server.verifier()
	ask := func(token string, count int) (reviewed int) {
		t.Helper()
		user, err := verifier.User(t.Context(), "Bearer "+token)
		if err != nil {
			t.Fatal(err)
		}
		for i := range count {
			_, err := user.MayRead(t.Context(), fmt.Sprintf("%s-%d-%d", token, server.reviews, i), "httpscaledobjects")
			switch {
			case err == nil:
				reviewed++
			case !errors.Is(err, access.ErrTooMany):
				t.Fatal(err)
			}
		}
		return reviewed
	}
	if got := ask("anna", 2*access.MaxReviews); got != access.MaxReviews {
		t.Errorf("%d reviews at once", got)
	}
	if got := ask("anna-2", 5); got != 0 {
		t.Errorf("%d more with another token of the user", got)
	}
	if got := ask("bob", 5); got != 5 {
		t.Errorf("%d of another user", got)
	}
	server.now = server.now.Add(time.Second)
	if got := ask("anna", access.MaxReviews); got == 0 || got > access.MaxReviews/10 {
		t.Errorf("%d a second later", got)
	}
	server.now = server.now.Add(access.MaxAge)
	if got := ask("anna", access.MaxReviews); got < access.MaxReviews/2 || got > 2*access.MaxReviews/3 {
		t.Errorf("%d when the token was reviewed again, want those of a minute", got)
	}
}

// TestManyTokens sends more tokens than are kept: each is still reviewed.
func TestManyTokens(t *testing.T) {
	t.Parallel()
	server := &api{now: time.Unix(0, 0)}
	verifier := server.verifier()
	for i := range 10_000 {
		if _, err := verifier.User(t.Context(), "Bearer "+time.Duration(i).String()); !errors.Is(err, access.ErrInvalid) {
			t.Fatal(err)
		}
	}
	if _, err := verifier.User(t.Context(), "Bearer anna"); err != nil {
		t.Error(err)
	}
}
