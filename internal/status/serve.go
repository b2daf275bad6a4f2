package status

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// AcksPath is where a replica serves its Acks, on its port for administration.
	AcksPath = "/acks"
	// AcksPort is the name of that port in the Service of the replicas.
	AcksPort = "admin"
	// maxWait is the longest time that a request for Acks waits for a change. It is also how long a replica that stopped, but whose connection is open,
	// is taken at its word.
	maxWait = time.Second
)

// ServeHTTP answers GET with the Acks as JSON and a tag of them (ETag). A request that names this tag (If-None-Match) is answered with 304 when they are the
// same, after the time that it wishes to wait for a change, at most maxWait: "Prefer: wait=1" (RFC 7240, section 4.3).
func (t *tally) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD are allowed here", http.StatusMethodNotAllowed)
		return
	}
	timer := time.NewTimer(preferredWait(r.Header.Values("Prefer")))
	defer timer.Stop()
	for over := false; ; {
		acks, changed := t.current()
		body, err := json.Marshal(acks)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		sum := sha256.Sum256(body)
		tag := fmt.Sprintf(`"%x"`, sum[:digestBytes])
		isKnown := r.Header.Get("If-None-Match") == tag
		if !isKnown || over {
			w.Header().Set("Etag", tag)
			w.Header().Set("Cache-Control", "no-store")
			if isKnown {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(body)
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			over = true
		case <-r.Context().Done():
			return
		}
	}
}

// preferredWait reads the preference wait, in seconds. Without it, or with nonsense, nothing is waited for.
func preferredWait(preferences []string) time.Duration {
	for _, preference := range preferences {
		for part := range strings.SplitSeq(preference, ",") {
			value, isWait := strings.CutPrefix(strings.TrimSpace(part), "wait=")
			seconds, err := strconv.ParseUint(value, 10, 16)
			if isWait && err == nil {
				return min(time.Duration(seconds)*time.Second, maxWait)
			}
		}
	}
	return 0
}
