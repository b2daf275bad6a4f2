package envoyadmin

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

func file(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

const prefix = "rollouts-demo/rollouts-demo/"

func TestParseRoutes(t *testing.T) {
	routes, err := ParseRoutes(file(t, "routes.json"), prefix)
	if err != nil {
		t.Fatal(err)
	}
	weighted := []Backend{{prefix + "rollouts-demo-stable", 80}, {prefix + "rollouts-demo-canary", 20}}
	want := []Route{
		{Scope: "rollouts-demo.example.com", VirtualHost: "rollouts-demo.example.com", Backends: weighted},
		{Scope: "*", VirtualHost: "*.rollouts-demo.localhost", Backends: weighted},
	}
	if diff := cmp.Diff(want, routes); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
	single, err := ParseRoutes(file(t, "routes.json"), "other/app/")
	if err != nil || len(single) != 1 || !cmp.Equal(single[0].Shares(), Shares{"other/app/web": 1}) {
		t.Errorf("an unweighted route: %+v, %v", single, err)
	}
	if none, err := ParseRoutes([]byte("{}"), prefix); err != nil || none != nil {
		t.Errorf("an Envoy without routes: %v, %v", none, err)
	}
	if _, err := ParseRoutes([]byte("upstream connect error"), prefix); err == nil {
		t.Error("text that is no JSON was accepted")
	}
}

func TestSplit(t *testing.T) {
	stable, canary := prefix+"stable", prefix+"canary"
	route := func(s, c uint32) Route {
		return Route{VirtualHost: "host", Backends: []Backend{{stable, s}, {canary, c}}}
	}
	tests := []struct {
		name     string
		routes   []Route
		want     Shares
		text     string
		disagree bool
	}{
		{
			name: "weights", routes: []Route{route(80, 20), route(80, 20)}, want: Shares{stable: .8, canary: .2},
			text: "canary 20 %, stable 80 %",
		},
		{
			name: "any total", routes: []Route{route(8000, 2000), route(4, 1)}, want: Shares{stable: .8, canary: .2},
			text: "canary 20 %, stable 80 %",
		},
		{name: "weight 0 gets nothing", routes: []Route{route(1, 0)}, want: Shares{stable: 1}, text: "stable 100 %"},
		{name: "no route", want: Shares{}, text: "no route"},
		{name: "no weight", routes: []Route{route(0, 0)}, want: Shares{}, text: "no route"},
		{name: "between two states", routes: []Route{route(80, 20), route(50, 50)}, disagree: true},
		{name: "swapped", routes: []Route{route(80, 20), route(20, 80)}, disagree: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Split(tt.routes)
			if errors.Is(err, ErrDisagree) != tt.disagree {
				t.Fatalf("error = %v", err)
			}
			if err == nil && (!got.Equal(tt.want) || got.String() != tt.text) {
				t.Errorf("shares %v %q, want %v %q", got, got.String(), tt.want, tt.text)
			}
		})
	}
}

func TestParseCounters(t *testing.T) {
	got, err := ParseCounters(file(t, "stats.json"))
	if err != nil {
		t.Fatal(err)
	}
	if want := (Counters{Requests: 27431, Success: 27430, ListenerUpdates: 1}); got != want {
		t.Errorf("counters %+v, want %+v", got, want)
	}
	_, err = ParseCounters([]byte(`{"stats":[{"name":"http.kedify-proxy.downstream_rq_total","value":1}]}`))
	if err == nil || !strings.Contains(err.Error(), SuccessCounter) {
		t.Errorf("a missing counter: %v", err)
	}
}

func TestNameLinesAreThoseOfTheGuide(t *testing.T) {
	dump := "  \"name\": \"rollouts-demo/rollouts-demo/rollouts-demo-stable\",\n  \"name\": \"other\",\n  \"host\": " +
		"\"rollouts-demo\"\n  \"name\": \"rollouts-demo\"\r\n"
	want := []string{`  "name": "rollouts-demo/rollouts-demo/rollouts-demo-stable",`, `  "name": "rollouts-demo"`}
	if diff := cmp.Diff(want, NameLines(dump, "rollouts-demo")); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestClient(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/config_dump":
			if r.URL.RawQuery != "" && r.URL.Query().Get("resource") != "dynamic_scoped_route_configs" {
				http.Error(w, "bad query", http.StatusBadRequest)
				return
			}
			_, _ = w.Write(file(t, "routes.json"))
		case "/stats":
			pattern, err := regexp.Compile(r.URL.Query().Get("filter"))
			if err != nil || r.URL.Query().Get("format") != "json" || !pattern.MatchString(SuccessCounter) ||
				pattern.MatchString(SuccessCounter+"x") {
				http.Error(w, "bad query", http.StatusBadRequest)
				return
			}
			_, _ = w.Write(file(t, "stats.json"))
		}
	}))
	defer server.Close()
	address := ""
	c := NewClient(await.Patience(), nil, func() string { return address })
	defer c.Close()
	if _, err := c.Counters(t.Context()); !errors.Is(err, ErrUnreachable) {
		t.Errorf("without an address: %v", err)
	}
	address = server.Listener.Addr().String()
	if routes, err := c.Routes(t.Context(), prefix); err != nil || len(routes) != 2 {
		t.Errorf("routes: %v, %v", routes, err)
	}
	if counters, err := c.Counters(t.Context()); err != nil || counters.Requests != 27431 {
		t.Errorf("counters: %+v, %v", counters, err)
	}
	if dump, err := c.Dump(t.Context()); err != nil || len(NameLines(dump, "rollouts-demo")) == 0 {
		t.Errorf("dump: %q, %v", dump, err)
	}
}
