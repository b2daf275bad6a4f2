package dashboard

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/dashboard/access"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

const (
	// writeTimeout limits the time to send one update.
	writeTimeout = 10 * time.Second
	// answerTimeout limits the time until a request without a stream has its first update.
	answerTimeout = 10 * time.Second
	// heartbeat is how often a stream without updates sends a comment.
	heartbeat = 15 * time.Second
	// maxStream is how long a stream with a token lasts: the client connects again, and its permissions are reviewed.
	maxStream = 2 * access.MaxAge
	// DefaultLimit is the default of the query limit.
	DefaultLimit = 500
	// MaxLimit is the maximum of the query limit.
	MaxLimit = 10_000
)

// grant is what a caller may read.
type grant interface {
	// MayRead reports whether the caller may read the objects of a namespace, of all namespaces for "".
	MayRead(ctx context.Context, namespace string) bool
	// MayReadWorkloads reports whether the caller may read the workloads and Events of a namespace.
	MayReadWorkloads(ctx context.Context, namespace string) bool
}

// everything is the grant of local callers.
type everything struct{}

func (everything) MayRead(context.Context, string) bool          { return true }
func (everything) MayReadWorkloads(context.Context, string) bool { return true }

// errForeign is the error of local requests that a web page of another host may have caused.
var errForeign = errors.New("this port serves only http://localhost, http://127.0.0.1 and http://[::1]: " +
	"open the page through kubectl http-canary dashboard")

// Page serves the live page and its API. Make it with NewLocal or NewWithTokens.
type Page struct {
	hub       *Hub
	mux       *http.ServeMux
	authorize func(r *http.Request) (grant, error)
	maxStream time.Duration // 0 for no limit
}

// NewLocal returns a Page for a port on a loopback address: its callers may read everything. It rejects requests with
// another host than that of a loopback address, which a web page can send after a change of its DNS records.
func NewLocal(hub *Hub) *Page {
	return newPage(hub, func(r *http.Request) (grant, error) {
		if !isLocal(r.Host) || r.Header.Get("Sec-Fetch-Site") == "cross-site" {
			return nil, errForeign
		}
		return everything{}, nil
	}, 0)
}

// NewWithTokens returns a Page whose callers need a token, and see the namespaces that they may read.
func NewWithTokens(hub *Hub, verifier *access.Verifier) *Page {
	return newPage(hub, func(r *http.Request) (grant, error) {
		user, err := verifier.User(r.Context(), r.Header.Get("Authorization"))
		if err != nil {
			return nil, err
		}
		return user, nil
	}, maxStream)
}

// newPage returns a Page.
func newPage(hub *Hub, authorize func(*http.Request) (grant, error), maxStream time.Duration) *Page {
	p := &Page{hub: hub, mux: http.NewServeMux(), authorize: authorize, maxStream: maxStream}
	p.addFiles()
	for pattern, serve := range map[string]func(http.ResponseWriter, *http.Request, grant){
		"GET /api/v1/objects":                          p.serveObjects,
		"GET /api/v1/objects/{namespace}/{name}":       p.serveObject,
		"GET /api/v1/watch":                            p.watchObjects,
		"GET /api/v1/objects/{namespace}/{name}/watch": p.watchObject,
	} {
		p.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			granted, err := p.authorize(r)
			if err != nil {
				http.Error(w, reasonOf(err), codeOf(err))
				return
			}
			serve(w, r, granted)
		})
	}
	return p
}

// isLocal reports whether the Host header of a request is that of a loopback address.
func isLocal(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	address, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && address.Unmap().IsLoopback()
}

// codeOf returns the HTTP status of an error of authorize.
func codeOf(err error) int {
	switch {
	case errors.Is(err, errForeign):
		return http.StatusForbidden
	case errors.Is(err, access.ErrUnavailable):
		return http.StatusServiceUnavailable
	default:
		return http.StatusUnauthorized
	}
}

// reasonOf returns the text of an error for the caller. Another one may name the API server.
func reasonOf(err error) string {
	for _, known := range []error{errForeign, access.ErrNoToken, access.ErrInvalid, access.ErrUnavailable} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return http.StatusText(http.StatusUnauthorized)
}

// ServeHTTP implements http.Handler.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "+
		"img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	p.mux.ServeHTTP(w, r)
}

// serveObjects serves the list of objects.
func (p *Page) serveObjects(w http.ResponseWriter, r *http.Request, granted grant) {
	query := r.URL.Query()
	limit := DefaultLimit
	if text := query.Get("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > MaxLimit {
			http.Error(w, "limit: use a number from 1 to "+strconv.Itoa(MaxLimit), http.StatusBadRequest)
			return
		}
	}
	scope, isAllowed := newScope(r.Context(), granted, query.Get("namespace"))
	if !isAllowed {
		http.Error(w, "you may not list the httpscaledobjects of this namespace", http.StatusForbidden)
		return
	}
	whole := p.first(r, model.Key{})
	if whole == nil {
		http.Error(w, "the interceptor is starting or has too many viewers: try again", http.StatusServiceUnavailable)
		return
	}
	page := update{isWhole: true}
	next := ""
	for _, one := range whole.rows {
		if one.key.String() <= query.Get("continue") || !scope.mayRead(one.key.Namespace) {
			continue
		}
		if len(page.rows) == limit {
			next = page.rows[limit-1].key.String()
			break
		}
		page.rows = append(page.rows, one)
	}
	text := page.encode(func(string) bool { return true })
	text = append(text[:len(text)-1], `,"continue":"`+next+`","interceptors":`...)
	writeJSON(w, append(append(text, whole.interceptors...), '}'))
}

// serveObject serves one object.
func (p *Page) serveObject(w http.ResponseWriter, r *http.Request, granted grant) {
	key := model.Key{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	if !granted.MayRead(r.Context(), key.Namespace) {
		http.Error(w, "you may not list the httpscaledobjects of this namespace", http.StatusForbidden)
		return
	}
	found := p.first(r, key)
	switch {
	case found == nil:
		http.Error(w, "the interceptor is starting or has too many viewers: try again", http.StatusServiceUnavailable)
	case found.detail == nil:
		http.Error(w, "there is no such object", http.StatusNotFound)
	default:
		writeJSON(w, found.detailFor(r.Context(), granted, key.Namespace))
	}
}

// detailFor returns the Detail for a caller.
func (u *update) detailFor(ctx context.Context, granted grant, namespace string) []byte {
	if granted.MayReadWorkloads(ctx, namespace) {
		return u.detail
	}
	return u.brief
}

// first returns the first update of an object, or of all objects for the zero Key. It is nil if there is none in time.
func (p *Page) first(r *http.Request, key model.Key) *update {
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	v := newViewer(key)
	if !p.hub.join(ctx, v) {
		return nil
	}
	defer p.hub.leave(v)
	select {
	case found := <-v.updates:
		return found
	case <-ctx.Done():
		return nil
	}
}

// writeJSON writes JSON. It ignores errors: the client has disconnected.
func writeJSON(w http.ResponseWriter, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(text)
}

// scope are the namespaces of one request.
type scope struct {
	isAll   bool
	mayRead func(namespace string) bool
}

// newScope returns the namespaces that a caller may read, only the given one unless it is "". It returns false if the
// caller may not read that one.
func newScope(ctx context.Context, granted grant, namespace string) (scope, bool) {
	if namespace != "" {
		isAllowed := granted.MayRead(ctx, namespace)
		return scope{mayRead: func(other string) bool { return other == namespace }}, isAllowed
	}
	if granted.MayRead(ctx, "") {
		return scope{isAll: true, mayRead: func(string) bool { return true }}, true
	}
	decided := map[string]bool{}
	return scope{mayRead: func(namespace string) bool {
		isAllowed, isKnown := decided[namespace]
		if !isKnown && len(decided) < maxNamespaces {
			isAllowed = granted.MayRead(ctx, namespace)
			decided[namespace] = isAllowed
		}
		return isAllowed
	}}, true
}

// maxNamespaces limits the namespaces that are reviewed for one request. The objects of others are omitted: the caller
// can name a namespace.
const maxNamespaces = 500
