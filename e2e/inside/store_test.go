package inside

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// If the store dies during a watch, the next watch resumes from the next revision: no version is missing or duplicate.
func TestFollowMissesNothing(t *testing.T) {
	answers := []string{
		`{"result":{"header":{"revision":"8"},"created":true}}
		 {"result":{"events":[{"kv":{"mod_revision":"9","value":"Yg=="}},{"kv":{"mod_revision":"11","value":"Yw=="}}]}}`,
		`{"result":{"created":true}}{"result":{"events":[{"type":"DELETE","kv":{"mod_revision":"14"}}]}}`,
	}
	var asked []string
	store := &Store{client: new(http.Client)}
	store.url = serve(t, func(w http.ResponseWriter, r *http.Request, n int) {
		raw, _ := io.ReadAll(r.Body)
		asked = append(asked, r.URL.Path+" "+string(raw))
		switch {
		case r.URL.Path == "/v3/kv/range":
			_, _ = io.WriteString(w, `{"header":{"revision":"8"},"kvs":[{"mod_revision":"5","value":"YQ=="}]}`)
		case n == 3:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			_, _ = io.WriteString(w, answers[min(n/3, 1)])
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	var got []string
	err := store.Follow(ctx, "k", func(v Version) {
		got = append(got, fmt.Sprintf("%d %s", v.Revision, v.Value))
		if v.Value == nil {
			cancel()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"5 a", "9 b", "11 c", "14 "}, got); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
	want := []string{
		`/v3/kv/range {"key":"aw=="}`,
		`/v3/watch {"create_request":{"key":"aw==","start_revision":"9"}}`,
		`/v3/watch {"create_request":{"key":"aw==","start_revision":"12"}}`,
		`/v3/watch {"create_request":{"key":"aw==","start_revision":"12"}}`,
	}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestFollowSaysWhenItMissedSomething(t *testing.T) {
	store := &Store{client: new(http.Client)}
	store.url = serve(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		if r.URL.Path == "/v3/kv/range" {
			_ = json.NewEncoder(w).Encode(map[string]any{"header": map[string]string{"revision": "8"}})
			return
		}
		_, _ = io.WriteString(w, `{"result":{"compact_revision":"20","canceled":true}}`)
	})
	if err := store.Follow(t.Context(), "k", func(Version) {}); !errors.Is(err, ErrGap) {
		t.Errorf("error = %v, want %v", err, ErrGap)
	}
}

// serve starts a server that passes the number of each request, from 1, to answer. It returns the server's URL.
func serve(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, n int)) string {
	t.Helper()
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer(w, r, int(asked.Add(1)))
	}))
	t.Cleanup(server.Close)
	return server.URL
}
