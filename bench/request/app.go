package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/affinity"
)

const (
	// namespace is the namespace of all objects.
	namespace = "shop"
	// wildcard is the only host that is not exact.
	wildcard model.Host = "*.wild.test"
	// smallBody and largeBody are the sizes of the app's two answers, in bytes.
	smallBody, largeBody = 20, 1024
	// largePath is the path of the large answer.
	largePath = "/large"
	// headersTimeout bounds the app's wait for headers.
	headersTimeout = 10 * time.Second
)

// app is the server behind the proxies.
type app struct {
	server *http.Server
	at     netip.AddrPort
}

// startApp starts the app.
func startApp(ctx context.Context) (app, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return app{}, err
	}
	at, err := netip.ParseAddrPort(listener.Addr().String())
	if err != nil {
		return app{}, err
	}
	small, large := []byte(strings.Repeat("x", smallBody)), []byte(strings.Repeat("x", largeBody))
	server := &http.Server{ReadHeaderTimeout: headersTimeout, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := small
		if r.URL.Path == largePath {
			body = large
		}
		_, _ = w.Write(body) // A closed proxy shows as a failed request.
	})}
	go func() { _ = server.Serve(listener) }() // It ends with Close. A failure shows as failed requests.
	return app{server, at}, nil
}

// hostOf returns an exact host.
func hostOf(i int) model.Host { return model.Host(fmt.Sprintf("web-%05d.shop.test", i)) }

// configOf returns the proxies' configuration: exact hosts, each in a canary, and the wildcard. stickiness and session
// decide which Service and which Pod receive the requests of a client; the zero values leave it to chance.
func configOf(hosts int, at netip.AddrPort, stickiness, session affinity.Key) model.Config {
	config := model.Config{Services: map[model.ServicePort]model.Endpoints{}}
	add := func(name string, host model.Host) {
		route := model.Route{
			Owner: model.Key{Namespace: namespace, Name: name}, Fleet: namespace,
			Match: model.Match{Host: host, PathPrefix: "/"}, Stickiness: stickiness, Affinity: session,
		}
		for side, weight := range map[string]uint32{"-stable": 80, "-canary": 20} {
			backend := model.Backend{
				Service: model.Key{Namespace: namespace, Name: name + side}, Port: 80, Weight: weight, Protocol: model.HTTP1,
			}
			config.Services[backend.ServicePort()] = model.Endpoints{Ready: []netip.AddrPort{at}}
			route.Backends = append(route.Backends, backend)
		}
		config.Routes = append(config.Routes, route)
	}
	for i := range hosts {
		add(fmt.Sprintf("web-%05d", i), hostOf(i))
	}
	add("wild", wildcard)
	return config
}
