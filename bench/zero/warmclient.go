package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/kit/coldstart"
)

// warmClient sends requests of one kind to a proxy: one connection for each request at a time over HTTP/1.1, and a
// single one over HTTP/2. They stay open until close.
type warmClient struct {
	kind   warmKind
	proxy  string
	client *http.Client
}

// newWarmClient returns the client of a proxy.
func newWarmClient(kind warmKind, proxy string) *warmClient {
	var protocols http.Protocols
	protocols.SetHTTP1(!kind.IsHTTP2)
	protocols.SetUnencryptedHTTP2(kind.IsHTTP2)
	transport := &http.Transport{
		MaxConnsPerHost: kind.Concurrency, MaxIdleConnsPerHost: kind.Concurrency, Protocols: &protocols, DisableCompression: true,
	}
	if kind.IsHTTP2 {
		transport.MaxConnsPerHost = 1
	}
	return &warmClient{kind, proxy, &http.Client{Transport: transport, Timeout: timeout}}
}

// close closes the connections.
func (c *warmClient) close() { c.client.CloseIdleConnections() }

// send sends requests to the apps in turn. It returns the times from a request to the end of its response, and the number
// of requests without the expected response.
func (c *warmClient) send(ctx context.Context, count int) (latencies []time.Duration, failed int) {
	parts := make([][]time.Duration, c.kind.Concurrency)
	var group sync.WaitGroup
	for n := range parts {
		group.Go(func() {
			for i := n; i < count; i += c.kind.Concurrency {
				began := time.Now()
				if c.isServed(ctx, i%c.kind.Apps) {
					parts[n] = append(parts[n], time.Since(began))
				}
			}
		})
	}
	group.Wait()
	latencies = slices.Concat(parts...)
	return latencies, count - len(latencies)
}

// isServed reports whether an app answered a request for it, with as many bytes as requested.
func (c *warmClient) isServed(ctx context.Context, app int) bool {
	url := fmt.Sprint("http://", c.proxy, coldstart.BytesPath, c.kind.Bytes)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	request.Host = coldstart.AppHost(app)
	response, err := c.client.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	length, err := io.Copy(io.Discard, response.Body)
	return err == nil && response.StatusCode == http.StatusOK && int(length) == c.kind.Bytes
}
