package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestAskByHTTP: only the colour is an answer.
func TestAskByHTTP(t *testing.T) {
	app := newApp(settings{color: "blue", path: "/color"})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "shop.example.com" {
			http.Error(w, "no\nsuch host", http.StatusServiceUnavailable)
			return
		}
		app.ServeHTTP(w, r)
	}))
	defer server.Close()
	q := target{
		protocol: "http", address: server.Listener.Addr().String(), host: "shop.example.com", path: "/color",
		client: server.Client(),
	}
	if got, err := q.request(t.Context()); got != "blue" || err != nil {
		t.Errorf("answer %q, %v", got, err)
	}
	q.path = "/"
	if got, err := q.request(t.Context()); err == nil {
		t.Errorf("a page was accepted as answer %q", got)
	}
	q.host = "other.example.com"
	if got, err := q.request(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "503 Service Unavailable: no such host") {
		t.Errorf("an error page was accepted as answer %q, %v", got, err)
	}
}
