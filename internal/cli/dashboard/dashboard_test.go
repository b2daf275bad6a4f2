package dashboard

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// server is a live page with some objects.
func server(t *testing.T) (port int) {
	t.Helper()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := `{"objects": [{"namespace": "shop", "name": "web", "target": "Rollout/front"}], "continue": "shop/web"}`
		if r.URL.Query().Get("continue") != "" {
			text = `{"objects": [{"namespace": "shop", "name": "api", "target": "Rollout/api"}], "continue": ""}`
		}
		if r.URL.Path != "/api/v1/objects" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(text)) // The test fails without it.
	}))
	t.Cleanup(page.Close)
	at, err := url.Parse(page.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err = strconv.Atoi(at.Port())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

var errLost = errors.New("lost connection to pod")

// TestRun connects twice: the first Pod ends. The address is printed and opened once, and stays the same.
func TestRun(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		namespace, object string
		want              string // after the port
		err               error
	}{
		"the overview":            {"", "", "/", nil},
		"one namespace":           {"shop", "", "/#/?namespace=shop", nil},
		"an object":               {"shop", "web", "/#/shop/web", nil},
		"an object of page two":   {"shop", "api", "/#/shop/api", nil},
		"the object of a Rollout": {"shop", "front", "/#/shop/web", nil},
		"no object":               {"shop", "none", "", ErrNoObject},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			page := server(t)
			var out, log bytes.Buffer
			var mu sync.Mutex
			var opened []string
			connections := 0
			err := Run(ctx, Options{
				Pods: func(context.Context) ([]string, error) { return []string{"pod-" + strconv.Itoa(connections)}, nil },
				Forward: func(ctx context.Context, _ string, local int, ready func(int)) error {
					mu.Lock()
					defer mu.Unlock()
					if connections++; connections == 2 {
						if local != page {
							t.Errorf("the second connection has port %d", local)
						}
						cancel()
						return ctx.Err()
					}
					ready(page)
					return errLost
				},
				Namespace: test.namespace, Name: test.object, Out: &out, Log: &log,
				Open: func(address string) { opened = append(opened, address) },
			})
			if test.err != nil {
				if !errors.Is(err, test.err) || out.Len() > 0 {
					t.Errorf("%v, %q, want %v", err, &out, test.err)
				}
				return
			}
			want := "http://127.0.0.1:" + strconv.Itoa(page) + test.want
			if err != nil || out.String() != want+"\n" || len(opened) != 1 || opened[0] != want || connections != 2 {
				t.Errorf("%v, %q, opened %v, %d connections; want %s", err, &out, opened, connections, want)
			}
			if !strings.Contains(log.String(), "connection lost (lost connection to pod)") {
				t.Errorf("log %q", &log)
			}
		})
	}
}

// TestRunFails has the errors of the first connection.
func TestRunFails(t *testing.T) {
	t.Parallel()
	forward := func(ctx context.Context, _ string, _ int, ready func(int)) error {
		ready(1) // There is no page.
		<-ctx.Done()
		return ctx.Err()
	}
	for name, test := range map[string]struct {
		pods []string
		err  error
		want error
	}{
		"no Pod":        {nil, nil, ErrNoPod},
		"no permission": {nil, errLost, errLost},
		"no page":       {[]string{"pod"}, nil, ErrNoPage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, log bytes.Buffer
			err := Run(t.Context(), Options{
				Pods:    func(context.Context) ([]string, error) { return test.pods, test.err },
				Forward: forward, Out: &out, Log: &log,
			})
			if !errors.Is(err, test.want) {
				t.Errorf("%v, want %v", err, test.want)
			}
		})
	}
}

// TestLocalPort has lines of kubectl.
func TestLocalPort(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]int{
		"Forwarding from 127.0.0.1:40123 -> 9091": 40123,
		"Forwarding from [::1]:40123 -> 9091":     0,
		"Handling connection for 40123":           0,
		"":                                        0,
	} {
		if port, isLine := localPort(line); isLine != (want != 0) || isLine && port != want {
			t.Errorf("%q: %d, %t", line, port, isLine)
		}
	}
}
