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
	// answerTimeout limits the time until a request without a stream has its first update, and workloadTimeout the time
	// until that has the workload.
	answerTimeout, workloadTimeout = 10 * time.Second, 2 * time.Second
	// heartbeat is how often a stream without updates sends a comment.
	heartbeat = 15 * time.Second
	// maxStream is how long a stream with a token lasts: the client connects again, and its permissions are reviewed.
	maxStream = 2 * access.MaxAge
	// DefaultLimit is the default of the query limit.
	DefaultLimit = 500
	// MaxLimit is the maximum of the query limit.
	MaxLimit = 10_000
)

var (
	// errForeign is the error of local requests that a web page of another host may have caused.
	errForeign = errors.New("this port serves only http://localhost, http://127.0.0.1 and http://[::1]: " +
		"open the page through kubectl http-canary dashboard")
	// errCursor is the error of an invalid parameter of the list.
	errCursor = errors.New(`continue: use the value of "continue" in the response before`)
	// errForbidden is the error of requests for a namespace that the caller may not read.
	errForbidden = errors.New("you may not list the httpscaledobjects or interceptorroutes of this namespace")
	// errNoObject is the error of requests for an object that does not exist.
	errNoObject = errors.New("there is no such object")
	// errBusy is the error of requests without an update in time.
	errBusy = errors.New("the interceptor starts, shuts down or has too many viewers: try again")
)

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
				refuse(w, err)
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

// refuse answers a request with an error of authorize or of a review.
func refuse(w http.ResponseWriter, err error) {
	code := http.StatusUnauthorized
	switch {
	case errors.Is(err, errForeign), errors.Is(err, errForbidden):
		code = http.StatusForbidden
	case errors.Is(err, errNoObject):
		code = http.StatusNotFound
	case errors.Is(err, access.ErrTooMany):
		code = http.StatusTooManyRequests
	case errors.Is(err, access.ErrUnavailable), errors.Is(err, errBusy):
		code = http.StatusServiceUnavailable
	}
	http.Error(w, reasonOf(err), code)
}

// reasonOf returns the text of an error for the caller. Another one may name the API server.
func reasonOf(err error) string {
	for _, known := range []error{
		errForeign, errForbidden, errNoObject, errBusy,
		access.ErrNoToken, access.ErrInvalid, access.ErrUnavailable, access.ErrTooMany,
	} {
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
	after, err := cursorOf(query.Get("continue"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	seen := newScope(granted, query.Get("namespace"))
	whole, err := p.list(r, seen)
	if err != nil {
		refuse(w, err)
		return
	}
	page := update{isWhole: true}
	next := ""
	for _, one := range whole.rows {
		if one.key.Compare(after) <= 0 || !seen.sees(one.collection()) {
			continue
		}
		if len(page.rows) == limit {
			next = page.rows[limit-1].key.String()
			break
		}
		page.rows = append(page.rows, one)
	}
	text := page.encode(seen.sees)
	text = append(text[:len(text)-1], `,"continue":"`+next+`","interceptors":`...)
	writeJSON(w, append(append(text, whole.interceptors...), '}'))
}

// cursorOf returns the last object of the page before, from the value of "continue" in its response. It is the zero Key
// for the first page.
func cursorOf(text string) (model.Key, error) {
	namespace, name, isKey := strings.Cut(text, "/")
	if text != "" && !isKey {
		return model.Key{}, errCursor
	}
	return model.Key{Namespace: namespace, Name: name}, nil
}

// list returns all objects, with their collections reviewed.
func (p *Page) list(r *http.Request, seen *scope) (*update, error) {
	if err := seen.admit(r.Context()); err != nil {
		return nil, err
	}
	whole := p.first(r, model.Key{}, seen.granted, func(*update) bool { return true })
	if whole == nil {
		return nil, errBusy
	}
	return whole, whole.review(r.Context(), seen)
}

// serveObject serves one object.
func (p *Page) serveObject(w http.ResponseWriter, r *http.Request, granted grant) {
	key := model.Key{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	if err := newScope(granted, key.Namespace).admit(r.Context()); err != nil {
		refuse(w, err)
		return
	}
	found := p.first(r, key, granted, func(u *update) bool { return u.detail == nil || u.isRead })
	if found == nil {
		refuse(w, errBusy)
		return
	}
	text, err := found.detailFor(r.Context(), granted, key.Namespace)
	if err != nil {
		refuse(w, err)
		return
	}
	writeJSON(w, text)
}

// detailFor returns the Detail for a caller.
func (u *update) detailFor(ctx context.Context, granted grant, namespace string) ([]byte, error) {
	if u.detail == nil {
		return nil, errNoObject
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	isAllowed, err := granted.MayRead(ctx, namespace, u.resource)
	switch {
	case err != nil:
		return nil, err
	case !isAllowed:
		return nil, errForbidden
	}
	isAllowed, err = granted.MayReadWorkloads(ctx, namespace)
	switch {
	case err != nil:
		return nil, err
	case !isAllowed:
		return u.brief, nil
	}
	return u.detail, nil
}

// first returns the first complete update of an object, or of all objects for the zero Key. After workloadTimeout, an
// incomplete one is enough. It is nil if there is none in time.
func (p *Page) first(r *http.Request, key model.Key, granted grant, isComplete func(*update) bool) (found *update) {
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	v := newViewer(key, granted.Name())
	if !p.hub.join(ctx, v) {
		return nil
	}
	defer p.hub.leave(v)
	var enough <-chan time.Time
	for {
		select {
		case next, isOpen := <-v.updates:
			if !isOpen {
				return found
			}
			if found = next; isComplete(found) {
				return found
			}
			if enough == nil {
				enough = time.After(workloadTimeout)
			}
		case <-enough:
			return found
		case <-ctx.Done():
			return found
		}
	}
}

// writeJSON writes JSON. It ignores errors: the client has disconnected.
func writeJSON(w http.ResponseWriter, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(text)
}
