// Package access decides which namespaces the caller of the live page may read. It lets the API server review the token
// of the caller, and the permission for each namespace. A failed review means no access for now, and is not remembered.
// Results count for a short time, in a bounded amount of memory, and a user has a limited number of reviews.
package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
)

const (
	// MaxAge is how long a review counts. A removed permission is effective after that time.
	MaxAge = time.Minute
	// maxEntries limits the reviews of each kind in memory. maxToken limits the length of a token in bytes.
	maxEntries, maxToken = 4096, 16 << 10
	// maxRunning limits the concurrent reviews of each kind, and timeout the time of one, with the time that it waits for
	// others. Reviews of tokens do not delay those of permissions: only the latter need a valid token.
	maxRunning, timeout = 16, 5 * time.Second
	// MaxReviews is how many permissions of a user are reviewed at once, and reviewsPerSecond how many after these.
	MaxReviews, reviewsPerSecond = 1000, 10
	// limitAge is how long the limit of a user is kept after the review of a token: until the token is reviewed again, and
	// then until the user can have as many reviews as a new one.
	limitAge = MaxAge + MaxReviews/reviewsPerSecond*time.Second
	// bearer is the beginning of an Authorization header with a token.
	bearer = "Bearer "
)

// Errors of reviews.
var (
	// ErrNoToken means that the caller has sent no token.
	ErrNoToken = errors.New("send a token of a Kubernetes user as Authorization: Bearer")
	// ErrInvalid means that the API server does not accept the token.
	ErrInvalid = errors.New("the API server does not accept the token")
	// ErrUnavailable means that nothing was reviewed, because of the API server or of too many reviews.
	ErrUnavailable = errors.New("the token was not reviewed: try again, and check that ClusterRole " +
		"kedify-http-interceptor-dashboard is bound")
	// ErrTooMany means that the permission was not reviewed, because the user has asked for too many.
	ErrTooMany = errors.New("too many permissions of this user were reviewed: name a namespace, or try again later")
)

// Reviewer reviews tokens and permissions.
type Reviewer struct {
	// Token creates a TokenReview, and Access a SubjectAccessReview. They return the API server's response.
	Token  func(context.Context, *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error)
	Access func(
		context.Context, *authorizationv1.SubjectAccessReview,
	) (*authorizationv1.SubjectAccessReview, error)
	// Now is the clock.
	Now func() time.Time
}

// Verifier is a Reviewer with a memory. Make it with New. It is safe for concurrent use.
type Verifier struct {
	reviewer Reviewer
	// tokens and permissions have one element for each running review.
	tokens, permissions chan struct{}
	users               cache[[sha256.Size]byte, *User]
	access              cache[question, bool]
	limits              cache[string, *rate.Limiter] // of the reviews of a user, by name
}

// question is what a SubjectAccessReview asks. user is the hash of the token.
type question struct {
	user                  [sha256.Size]byte
	namespace             string
	verb, group, resource string
}

// New returns a Verifier.
func New(reviewer Reviewer) *Verifier {
	return &Verifier{
		reviewer: reviewer, tokens: make(chan struct{}, maxRunning), permissions: make(chan struct{}, maxRunning),
	}
}

// User is a user whose token the API server accepts.
type User struct {
	verifier *Verifier
	hash     [sha256.Size]byte
	info     authenticationv1.UserInfo
	limit    *rate.Limiter
}

// Name returns the name of the user.
func (u *User) Name() string { return u.info.Username }

// User returns the user of an Authorization header. The chain of an error contains one of the errors above, and no
// token.
func (v *Verifier) User(ctx context.Context, header string) (*User, error) {
	token, isBearer := strings.CutPrefix(header, bearer)
	token = strings.TrimSpace(token)
	switch {
	case header == "" || isBearer && token == "":
		return nil, ErrNoToken
	case !isBearer || len(token) > maxToken:
		return nil, ErrInvalid
	}
	hash := sha256.Sum256([]byte(token))
	if user, isKnown := v.users.get(hash, v.reviewer.Now()); isKnown {
		if user == nil {
			return nil, ErrInvalid
		}
		return user, nil
	}
	var status authenticationv1.TokenReviewStatus
	err := limited(ctx, v.tokens, func(ctx context.Context) error {
		answer, err := v.reviewer.Token(ctx, &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: token},
		})
		if err == nil {
			status = answer.Status
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var user *User
	if status.Authenticated && status.User.Username != "" {
		user = &User{verifier: v, hash: hash, info: status.User, limit: v.limitOf(status.User.Username)}
	}
	v.users.put(hash, user, v.reviewer.Now(), MaxAge)
	if user == nil {
		return nil, ErrInvalid
	}
	return user, nil
}

// limitOf returns the limit of the reviews of a user, which all tokens of the user share.
func (v *Verifier) limitOf(name string) *rate.Limiter {
	now := v.reviewer.Now()
	limit, isKnown := v.limits.get(name, now)
	if !isKnown {
		limit = rate.NewLimiter(reviewsPerSecond, MaxReviews)
	}
	v.limits.put(name, limit, now, limitAge)
	return limit
}

// MayRead reports whether the user may list a resource of API group http.keda.sh in a namespace, in all namespaces for
// "". The chain of an error contains ErrUnavailable or ErrTooMany.
func (u *User) MayRead(ctx context.Context, namespace, resource string) (bool, error) {
	return u.may(ctx, namespace, "list", "http.keda.sh", resource)
}

// MayReadWorkloads reports whether the user may read Rollouts, Deployments and Events of a namespace. Its errors are
// those of MayRead.
func (u *User) MayReadWorkloads(ctx context.Context, namespace string) (bool, error) {
	for _, needed := range []struct{ verb, group, resource string }{
		{"get", "argoproj.io", "rollouts"}, {"get", "apps", "deployments"}, {"list", "", "events"},
	} {
		if isAllowed, err := u.may(ctx, namespace, needed.verb, needed.group, needed.resource); !isAllowed {
			return false, err
		}
	}
	return true, nil
}

// may reports whether the user has a permission.
func (u *User) may(ctx context.Context, namespace, verb, group, resource string) (bool, error) {
	v, asked := u.verifier, question{u.hash, namespace, verb, group, resource}
	if isAllowed, isKnown := v.access.get(asked, v.reviewer.Now()); isKnown {
		return isAllowed, nil
	}
	if !u.limit.AllowN(v.reviewer.Now(), 1) {
		return false, ErrTooMany
	}
	extra := make(map[string]authorizationv1.ExtraValue, len(u.info.Extra))
	for name, values := range u.info.Extra {
		extra[name] = authorizationv1.ExtraValue(values)
	}
	isAllowed := false
	err := limited(ctx, v.permissions, func(ctx context.Context) error {
		answer, err := v.reviewer.Access(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User: u.info.Username, UID: u.info.UID, Groups: u.info.Groups, Extra: extra,
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: namespace, Verb: verb, Group: group, Resource: resource,
				},
			},
		})
		isAllowed = err == nil && answer.Status.Allowed && !answer.Status.Denied
		return err
	})
	if err != nil {
		return false, err
	}
	v.access.put(asked, isAllowed, v.reviewer.Now(), MaxAge)
	return isAllowed, nil
}

// limited calls review with a deadline, when few enough others run.
func limited(ctx context.Context, running chan struct{}, review func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case running <- struct{}{}:
		defer func() { <-running }()
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
	if err := review(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// cache remembers values for some time. The zero value is empty. It is safe for concurrent use.
type cache[K comparable, V any] struct {
	mu      sync.Mutex
	entries map[K]entry[V]
}

// entry is a value with its end.
type entry[V any] struct {
	value   V
	expires time.Time
}

// get returns the value of a key.
func (c *cache[K, V]) get(key K, now time.Time) (value V, isKnown bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, exists := c.entries[key]
	if !exists || !now.Before(found.expires) {
		return value, false
	}
	return found.value, true
}

// put stores a value for some time. If there are too many, it discards the expired ones, and all others if that is not
// enough.
func (c *cache[K, V]) put(key K, value V, now time.Time, age time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.entries) >= maxEntries {
		maps.DeleteFunc(c.entries, func(_ K, old entry[V]) bool { return !now.Before(old.expires) })
	}
	if c.entries == nil || len(c.entries) >= maxEntries {
		c.entries = map[K]entry[V]{}
	}
	c.entries[key] = entry[V]{value, now.Add(age)}
}
