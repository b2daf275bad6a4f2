// Package identity verifies which Pod a proxy is, by the token of its ServiceAccount that the kubelet mounts into the
// Pod. The API server reviews a token; uses within the next minutes are answered from memory. While the API server is
// unavailable, a token that it has accepted before counts until it expires.
package identity

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// Audience is the audience of tokens for the interceptor. The API server accepts such a token for nothing else.
	Audience = "kedify-http-interceptor"
	// podKey is the key of a Pod's name in the review of its token, see
	// https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/.
	podKey = "authentication.kubernetes.io/pod-name"
	// accountPrefix is the beginning of the user name of a ServiceAccount.
	accountPrefix = "system:serviceaccount:"
	// bearer is the beginning of an Authorization header with a token.
	bearer = "Bearer "
	// maxAge is how long a review counts, at most until the token expires. A deleted Pod keeps its identity that long.
	maxAge = 2 * time.Minute
	// maxReviews limits the reviews in memory, and maxPeerReviews those of one peer, so that it cannot use all: anyone who
	// may create Pods can request any number of tokens. maxToken limits the length of a token in bytes.
	maxReviews, maxPeerReviews, maxToken = 4096, 8, 16 << 10
	// reviewTimeout limits one review, and maxRunning the concurrent ones. maxPerPeer limits those of one peer, so that
	// it cannot use all: a proxy opens two streams at the same time.
	reviewTimeout, maxRunning, maxPerPeer = 5 * time.Second, 16, 2
)

// Errors of Verify.
var (
	// ErrInvalid means that the API server does not accept the token, or that it is not one of a Pod.
	ErrInvalid = errors.New("invalid token")
	// ErrUnavailable means that the token was not reviewed, because of the API server or of too many reviews, and
	// ErrForbidden that the interceptor may not have tokens reviewed, and has had none reviewed before.
	ErrUnavailable = errors.New("the token was not reviewed")
	ErrForbidden   = errors.New("the ServiceAccount may not create tokenreviews")
)

// Pod is a Pod by its namespace and name. Account is the name of its ServiceAccount.
type Pod struct{ Namespace, Name, Account string }

// Verifier verifies tokens. Make it with New. It is safe for concurrent use.
type Verifier struct {
	review  func(ctx context.Context, review *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error)
	now     func() time.Time
	running chan struct{} // has an element for each review that runs
	// isPermitted is true after the first review. From then on a forbidden one is temporary: an API server that has just
	// started forbids reviews until it has loaded its RBAC rules.
	isPermitted atomic.Bool

	mu      sync.Mutex
	reviews map[[sha256.Size]byte]reviewed // by the hash of the token
	perPeer map[netip.Addr]int             // reviews that run or wait
}

// reviewed is the result of a review.
type reviewed struct {
	pod  Pod
	peer netip.Addr // for which the token was reviewed last
	// freshUntil is when the token must be reviewed again, and expires when the token expires.
	freshUntil, expires time.Time
}

// New returns a Verifier. review creates a TokenReview and returns the API server's response.
func New(
	review func(ctx context.Context, review *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error),
	now func() time.Time,
) *Verifier {
	return &Verifier{
		review: review, now: now, running: make(chan struct{}, maxRunning),
		reviews: map[[sha256.Size]byte]reviewed{}, perPeer: map[netip.Addr]int{},
	}
}

// Verify returns the Pod of an Authorization header that a peer has sent. The zero Pod without an error means that the
// header is empty. The chain of an error contains one of the errors above, and no token.
func (v *Verifier) Verify(ctx context.Context, peer netip.Addr, header string) (Pod, error) {
	if header == "" {
		return Pod{}, nil
	}
	token, isBearer := strings.CutPrefix(header, bearer)
	token = strings.TrimSpace(token) // Envoy reads it from a file.
	expires, err := expiryOf(token)
	if !isBearer || err != nil {
		return Pod{}, fmt.Errorf("%w: it is not the token of a ServiceAccount", ErrInvalid)
	}
	hash := sha256.Sum256([]byte(token))
	known := v.recall(hash)
	if v.now().Before(known.freshUntil) {
		return known.pod, nil
	}
	pod, err := v.request(ctx, peer, token)
	if errors.Is(err, ErrUnavailable) && v.now().Before(known.expires) {
		return known.pod, nil // A proxy that lost its connection continues during an outage of the API server.
	}
	switch {
	case err == nil:
		v.remember(hash, reviewed{pod, peer, earlier(expires, v.now().Add(maxAge)), expires})
	case errors.Is(err, ErrInvalid):
		v.forget(hash)
	}
	return pod, err
}

// recall returns the last review of a token that the API server has accepted, the zero value if there is none.
func (v *Verifier) recall(hash [sha256.Size]byte) reviewed {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.reviews[hash]
}

// remember stores the result of a review. If there are many of the peer, it discards the oldest of them. If there are
// many of all peers, it discards those that must be repeated anyway.
func (v *Verifier) remember(hash [sha256.Size]byte, result reviewed) {
	now := v.now()
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.reviews, hash)
	v.discardOldest(result.peer)
	if len(v.reviews) >= maxReviews {
		maps.DeleteFunc(v.reviews, func(_ [sha256.Size]byte, old reviewed) bool { return !now.Before(old.freshUntil) })
	}
	if len(v.reviews) < maxReviews {
		v.reviews[hash] = result
	}
}

// discardOldest discards the oldest review of a peer that has the maximum number of them. The caller holds the lock.
func (v *Verifier) discardOldest(peer netip.Addr) {
	var oldest [sha256.Size]byte
	count := 0
	for hash, known := range v.reviews {
		if known.peer != peer {
			continue
		}
		if count == 0 || known.freshUntil.Before(v.reviews[oldest].freshUntil) {
			oldest = hash
		}
		count++
	}
	if count >= maxPeerReviews {
		delete(v.reviews, oldest)
	}
}

// forget discards the review of a token that has become invalid.
func (v *Verifier) forget(hash [sha256.Size]byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.reviews, hash)
}

// request lets the API server review a token.
func (v *Verifier) request(ctx context.Context, peer netip.Addr, token string) (Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	if !v.enter(peer) {
		return Pod{}, fmt.Errorf("%w: %d other reviews for %s are running", ErrUnavailable, maxPerPeer, peer)
	}
	defer v.leave(peer)
	select {
	case v.running <- struct{}{}:
		defer func() { <-v.running }()
	case <-ctx.Done():
		return Pod{}, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
	answer, err := v.review(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{Audience}},
	})
	switch {
	case apierrors.IsForbidden(err) && !v.isPermitted.Load():
		return Pod{}, fmt.Errorf("%w: %w", ErrForbidden, err)
	case err != nil:
		return Pod{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	v.isPermitted.Store(true)
	return podOf(answer.Status)
}

// enter counts a review of a peer, and reports whether the peer may have another one.
func (v *Verifier) enter(peer netip.Addr) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.perPeer[peer] >= maxPerPeer {
		return false
	}
	v.perPeer[peer]++
	return true
}

// leave ends what enter has begun.
func (v *Verifier) leave(peer netip.Addr) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.perPeer[peer]--; v.perPeer[peer] == 0 {
		delete(v.perPeer, peer)
	}
}

// podOf returns the Pod in a review.
func podOf(status authenticationv1.TokenReviewStatus) (Pod, error) {
	if !status.Authenticated {
		return Pod{}, fmt.Errorf("%w: the API server does not accept it: %.200s", ErrInvalid, status.Error)
	}
	account, isAccount := strings.CutPrefix(status.User.Username, accountPrefix)
	namespace, account, _ := strings.Cut(account, ":")
	names := status.User.Extra[podKey]
	if !slices.Contains(status.Audiences, Audience) || !isAccount || namespace == "" || len(names) != 1 || names[0] == "" {
		return Pod{}, fmt.Errorf("%w: it has no audience %s, or is not bound to a Pod", ErrInvalid, Audience)
	}
	return Pod{namespace, names[0], account}, nil
}

// expiryOf returns when a token expires (RFC 7519), without any verification.
func expiryOf(token string) (time.Time, error) {
	if len(token) > maxToken { // First: a header may have 16 MiB, all of them separators.
		return time.Time{}, ErrInvalid
	}
	const parts = 3
	encoded := strings.Split(token, ".")
	if len(encoded) != parts {
		return time.Time{}, ErrInvalid
	}
	text, err := base64.RawURLEncoding.DecodeString(encoded[1])
	if err != nil {
		return time.Time{}, err
	}
	var claims struct {
		Expiry float64 `json:"exp"`
	}
	if err := json.Unmarshal(text, &claims); err != nil {
		return time.Time{}, err
	}
	return time.Unix(int64(claims.Expiry), 0), nil
}

// earlier returns the earlier of two times.
func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
