package envoy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// TestExpectContinue: a client that waits for 100 before it sends its body, as curl does, receives it from the proxy,
// also while its request is queued. The app receives the whole body, or rejects it by its status.
func TestExpectContinue(t *testing.T) {
	t.Parallel()
	const host = "Host: shop.example.com"
	for _, protocol := range appProtocols() {
		t.Run(string(protocol), func(t *testing.T) {
			t.Parallel()
			all := shopInputs(t, startBackendFor(t, "shop", protocol), protocol)
			r := startSecureReplica(t, all)
			for _, state := range states() {
				for _, isSecure := range []bool{false, true} {
					name := fmt.Sprintf("%s, %s", state, schemeOf(isSecure))
					r.enter(t, state, all)
					client := r.dialShop(t, isSecure, "http/1.1")
					got := client.send("POST /size HTTP/1.1", host, "Content-Length: 5", "Expect: 100-continue")
					if got.status != http.StatusContinue {
						t.Fatalf("%s: %+v", name, got)
					}
					if state != "ready" {
						r.awaitQueued(t, "shop", 1)
						r.await(t, r.publishInputs(t, all))
					}
					if _, err := io.WriteString(client, "hello"); err != nil {
						t.Fatal(err)
					}
					if got := client.read(http.MethodPost); got.status != http.StatusOK || got.body != "5" {
						t.Errorf("%s: %+v", name, got)
					}
				}
			}
			for _, client := range protocols() {
				for path, want := range map[string]int{"/size": http.StatusOK, "/reject": http.StatusRequestEntityTooLarge} {
					got, interim := r.sendTraced(t, client, func(request *http.Request) {
						request.Method, request.URL.Path = http.MethodPost, path
						request.Header.Set("Expect", "100-continue")
						request.Body, request.ContentLength = io.NopCloser(strings.NewReader("hello")), 5
					})
					if got.status != want || !slices.Contains(interim.codes, http.StatusContinue) {
						t.Errorf("%s over %s: %+v after %v", path, client, got, interim.codes)
					}
				}
			}
		})
	}
}

// TestOtherExpectations: the app decides about an expectation that is unknown to the proxy. Envoy sends 100 also to a
// client of HTTP/1.0, which RFC 9110, section 10.1.1, forbids. The response follows, and has the length of the body.
func TestOtherExpectations(t *testing.T) {
	t.Parallel()
	r := startSecureReplica(t, shopInputs(t, startBackend(t, "shop"), model.HTTP1))
	const host = "Host: shop.example.com"
	got := dial(t, r.address).send("GET /size HTTP/1.1", host, "Expect: tea")
	if got.status != http.StatusExpectationFailed {
		t.Errorf("an unknown expectation: %+v, want the 417 of the app", got)
	}
	old := dial(t, r.address)
	got = old.send("POST /size HTTP/1.0", host, "Expect: 100-continue", "Content-Length: 6\r\n\r\nab")
	if got.status == http.StatusContinue {
		got = old.read(http.MethodPost)
	}
	if got.status != http.StatusOK || got.body != "6" {
		t.Errorf("over HTTP/1.0: %+v", got)
	}
}

// TestEarlyHints: interim responses of an app (RFC 8297) do not reach the client, and do not disturb the final response,
// with each protocol on both sides, also if the request was queued.
func TestEarlyHints(t *testing.T) {
	t.Parallel()
	for _, protocol := range appProtocols() {
		t.Run(string(protocol), func(t *testing.T) {
			t.Parallel()
			all := shopInputs(t, startBackendFor(t, "shop", protocol), protocol)
			r := startSecureReplica(t, all)
			for _, client := range protocols() {
				got, interim := r.sendTraced(t, client, func(request *http.Request) { request.URL.Path = "/hints" })
				if got.backend() != "shop" || len(got.header.Values("Link")) != 2 {
					t.Errorf("over %s: %+v", client, got)
				}
				if len(interim.codes) > 0 {
					t.Errorf("over %s: interim responses %v with %v links", client, interim.codes, interim.links)
				}
			}
			for _, state := range states() {
				requests := [][]string{{"GET /hints HTTP/1.0", "Host: shop.example.com"}}
				if got := r.sendIn(t, state, all, requests)[0]; got.backend() != "shop" {
					t.Errorf("over HTTP/1.0, %s: %+v", state, got)
				}
			}
		})
	}
}

// interimResponses are the interim responses (1xx) to a request, with the number of fields Link in each.
type interimResponses struct{ codes, links []int }

// sendTraced is sendRequest for shop.example.com, with the interim responses. A client waits for 100.
func (s *served) sendTraced(t *testing.T, protocol string, change func(*http.Request)) (result, interimResponses) {
	t.Helper()
	var mu sync.Mutex
	var interim interimResponses
	trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
		mu.Lock()
		defer mu.Unlock()
		interim.codes = append(interim.codes, code)
		interim.links = append(interim.links, len(header["Link"]))
		return nil
	}, Got100Continue: func() {
		mu.Lock()
		defer mu.Unlock()
		interim.codes = append(interim.codes, http.StatusContinue)
		interim.links = append(interim.links, 0)
	}}
	transport := &http.Transport{Protocols: new(http.Protocols), ExpectContinueTimeout: await.Patience()}
	transport.Protocols.SetHTTP1(protocol == "HTTP/1.1")
	transport.Protocols.SetUnencryptedHTTP2(protocol == "HTTP/2")
	connection, err := transport.NewClientConn(t.Context(), "http", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(await.Context(t), trace), http.MethodGet,
		"http://"+s.address+"/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "shop.example.com"
	change(request)
	got := roundTrip(request, connection)
	mu.Lock()
	defer mu.Unlock()
	return got, interimResponses{slices.Clone(interim.codes), slices.Clone(interim.links)}
}
