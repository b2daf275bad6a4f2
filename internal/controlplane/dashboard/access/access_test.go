package access_test

import (
	"context"
	"errors"
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
	if review.Spec.Token == "anna" {
		answer.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{
			Username: "anna", Groups: []string{"team"}, Extra: map[string]authenticationv1.ExtraValue{"a": {"b"}},
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
	for range 3 {
		for namespace, want := range map[string]bool{"": false, "shop": true, "bank": false} {
			if got := user.MayRead(t.Context(), namespace); got != want {
				t.Errorf("namespace %q: %v", namespace, got)
			}
		}
		if user.MayReadWorkloads(t.Context(), "shop") {
			t.Error("the user may read Rollouts")
		}
	}
	if server.reviews != 4 { // three namespaces, and Rollouts in one
		t.Errorf("%d reviews", server.reviews)
	}
	for _, asked := range server.asked {
		if asked.User != "anna" || len(asked.Groups) != 1 || len(asked.Extra) != 1 {
			t.Errorf("reviewed %+v", asked)
		}
	}
	server.now, server.isDown = server.now.Add(access.MaxAge), true
	if user.MayRead(t.Context(), "shop") {
		t.Error("the permission outlives its review while the API server is down")
	}
	if _, err := verifier.User(t.Context(), "Bearer anna"); !errors.Is(err, access.ErrUnavailable) {
		t.Errorf("the token outlives its review: %v", err)
	}
	if server.isDown = false; !user.MayRead(t.Context(), "shop") {
		t.Error("a failed review counts")
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
