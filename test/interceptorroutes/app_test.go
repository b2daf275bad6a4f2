package interceptorroutes

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/coldstart"
	"github.com/kedify/argo-rollouts-plugin/test/kit/netspace"
)

const (
	// appHeader is the header that contains the name of the app in its responses.
	appHeader = "X-App"
	// pause is the response time of an app for the path /slow.
	pause = 600 * time.Millisecond
)

// app is a server behind the Service of the same name.
type app struct {
	name    string
	port    uint16
	arrived chan struct{} // one element for each request to /held
	release chan struct{} // closed to answer them
}

// service is the Service of an app and its EndpointSlice, without an endpoint.
const service = `
apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec: {ports: [{name: web, port: 80%[3]s}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{name: web, port: %[2]d}]
endpoints: []
`

// newApp starts an app for HTTP/1.1. It has no endpoint yet.
func (s *environment) newApp(t *testing.T, name string) *app {
	t.Helper()
	return s.newAppFor(t, name, "")
}

// newAppFor is newApp with the appProtocol of the Service. The app stops with the test.
func (s *environment) newAppFor(t *testing.T, name, protocol string) *app {
	t.Helper()
	a := &app{name: name, arrived: make(chan struct{}, 1), release: make(chan struct{})}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", netip.AddrPortFrom(netspace.Address(), 0).String())
	if err != nil {
		t.Fatal(err)
	}
	address, err := netip.ParseAddrPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	a.port = address.Port()
	server := httptest.NewUnstartedServer(a.handler())
	server.Listener.Close()
	server.Listener = listener
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	if protocol != "" {
		protocol = ", appProtocol: " + protocol
	}
	s.apply(t, fmt.Sprintf(service, name, a.port, protocol))
	return a
}

// readyApp starts an app with an endpoint.
func (s *environment) readyApp(t *testing.T, name string) *app {
	t.Helper()
	a := s.newApp(t, name)
	s.setReady(t, a, true)
	return a
}

// setReady adds the endpoint of an app, or removes it.
func (s *environment) setReady(t *testing.T, a *app, isReady bool) {
	t.Helper()
	endpoints := []map[string]any{}
	if isReady {
		endpoints = append(endpoints, map[string]any{
			"addresses": []string{netspace.Address().String()}, "conditions": map[string]bool{"ready": true},
		})
	}
	path := "/apis/discovery.k8s.io/v1/namespaces/" + coldstart.Namespace + "/endpointslices/" + a.name
	err := apiserver.Patch(t.Context(), s.Admin, path, "test", map[string]any{"endpoints": endpoints})
	if err != nil {
		t.Fatal(err)
	}
}

// handler returns the responses of the app. It sends WebSocket messages to /echo and gRPC messages back.
func (a *app) handler() http.Handler {
	calls := grpc.NewServer(grpc.UnknownServiceHandler(echo))
	sockets := websocket.Server{Handler: func(connection *websocket.Conn) { _, _ = io.Copy(connection, connection) }}
	mux := http.NewServeMux()
	mux.Handle("/echo", sockets)
	mux.HandleFunc("/slow", a.slow)
	mux.HandleFunc("/silent", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/held", a.hold)
	mux.HandleFunc("/unavailable", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(appHeader, a.name)
		if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			calls.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// slow responds after pause.
func (a *app) slow(w http.ResponseWriter, r *http.Request) {
	select {
	case <-time.After(pause): //testbounds:allow an app that is slow on purpose
		w.WriteHeader(http.StatusOK)
	case <-r.Context().Done():
	}
}

// hold responds when the test closes release.
func (a *app) hold(w http.ResponseWriter, r *http.Request) {
	a.arrived <- struct{}{}
	select {
	case <-a.release:
		w.WriteHeader(http.StatusOK)
	case <-r.Context().Done():
	}
}

// echo sends each message of a gRPC call back.
func echo(_ any, stream grpc.ServerStream) error {
	for {
		message := new(wrapperspb.StringValue)
		if err := stream.RecvMsg(message); err != nil {
			return nil //nolint:nilerr // the client has sent its last message
		}
		if err := stream.SendMsg(message); err != nil {
			return err
		}
	}
}
