package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/bareserver"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/pace"
	"github.com/kedify/argo-rollouts-plugin/internal/testkit/envoyproc"
)

// errNoCounter says that Envoy does not tell something.
var errNoCounter = errors.New("envoy has no counter")

// usage is what the parts have used since their start: processor time in microseconds, and bytes.
type usage struct {
	at time.Time
	// Interceptor is all of its process, Proxy the main thread of its Envoy, and BareProxy that of
	// the bare server's. Bytes and BareBytes are what the two Envoys have received.
	Interceptor float64 `json:"interceptorCPUus"`
	Proxy       float64 `json:"proxyMainThreadCPUus"`
	BareProxy   float64 `json:"bareProxyMainThreadCPUus"`
	Bytes       float64 `json:"bytes"`
	BareBytes   float64 `json:"bareBytes"`
}

// over is usage for each of a number of things.
func (u usage) over(count float64) usage {
	return usage{
		Interceptor: u.Interceptor / count, Proxy: u.Proxy / count, BareProxy: u.BareProxy / count,
		Bytes: u.Bytes / count, BareBytes: u.BareBytes / count,
	}
}

// less is what is left of usage without another one.
func (u usage) less(other usage) usage {
	return usage{
		Interceptor: u.Interceptor - other.Interceptor, Proxy: u.Proxy - other.Proxy,
		BareProxy: u.BareProxy - other.BareProxy, Bytes: u.Bytes - other.Bytes,
		BareBytes: u.BareBytes - other.BareBytes,
	}
}

// usage reads what the parts have used.
func (s *stage) usage(ctx context.Context) (usage, error) {
	now := usage{at: time.Now()}
	var errs error
	read := func(value float64, err error) float64 {
		errs = errors.Join(errs, err)
		return value
	}
	now.Interceptor = read(s.interceptorAt.CPU())
	for i, of := range []struct{ time, bytes *float64 }{
		{&now.Proxy, &now.Bytes}, {&now.BareProxy, &now.BareBytes},
	} {
		*of.time = read(s.proxiesAt[i].MainThreadCPU())
		*of.bytes = read(received(ctx, s.proxies[i]))
	}
	return now, errs
}

// idleRate is what the parts use in a second in which nothing happens.
func (s *stage) idleRate(ctx context.Context) (usage, error) {
	before, err := s.usage(ctx)
	if err != nil {
		return usage{}, err
	}
	if err := pace.Wait(ctx, settled); err != nil {
		return usage{}, err
	}
	after, err := s.usage(ctx)
	return after.less(before).over(after.at.Sub(before.at).Seconds()), err
}

// costOf is what each of a number of weights has used, without what is used anyway.
func costOf(before, after, idleRate usage, weights int) usage {
	idle := idleRate.over(1 / after.at.Sub(before.at).Seconds())
	return after.less(before).less(idle).over(float64(weights))
}

// received is the number of bytes that an Envoy has got from its discovery server.
func received(ctx context.Context, proxy *envoyproc.Envoy) (float64, error) {
	text, err := proxy.Admin(ctx, "/stats?filter=^"+bareserver.ReceivedBytes+"$")
	if err != nil {
		return 0, err
	}
	_, value, found := strings.Cut(strings.TrimSpace(string(text)), ": ")
	if !found {
		return 0, fmt.Errorf("%w: %s", errNoCounter, bareserver.ReceivedBytes)
	}
	return strconv.ParseFloat(value, 64)
}
