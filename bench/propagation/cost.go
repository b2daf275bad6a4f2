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
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyproc"
)

// errNoCounter is returned if Envoy does not provide a counter.
var errNoCounter = errors.New("envoy has no counter")

// usage is the usage of the components since their start, or in some seconds: processor time in microseconds, and
// bytes.
type usage struct {
	seconds float64
	// Interceptor is its whole process. Proxy is the main thread of its Envoy, BareProxy the main thread of the bare
	// server's Envoy. Bytes and BareBytes are the bytes that the two Envoys have received.
	Interceptor float64 `json:"interceptorCPUus"`
	Proxy       float64 `json:"proxyMainThreadCPUus"`
	BareProxy   float64 `json:"bareProxyMainThreadCPUus"`
	Bytes       float64 `json:"bytes"`
	BareBytes   float64 `json:"bareBytes"`
}

// per returns usage per item.
func (u usage) per(count float64) usage {
	return usage{
		Interceptor: u.Interceptor / count, Proxy: u.Proxy / count, BareProxy: u.BareProxy / count,
		Bytes: u.Bytes / count, BareBytes: u.BareBytes / count,
	}
}

// minus returns usage minus another one.
func (u usage) minus(other usage) usage {
	return usage{
		seconds:     u.seconds - other.seconds,
		Interceptor: u.Interceptor - other.Interceptor, Proxy: u.Proxy - other.Proxy,
		BareProxy: u.BareProxy - other.BareProxy, Bytes: u.Bytes - other.Bytes,
		BareBytes: u.BareBytes - other.BareBytes,
	}
}

// reading is a usage with the times of its measurement. Reading the counter of received bytes costs the main thread of
// an Envoy with 10 000 hosts more than a hundred weights. So the usage between two readings starts where the first one
// ends, and ends where the second one begins.
type reading struct{ begins, ends usage }

// until returns the usage between two readings.
func (r reading) until(next reading) usage { return next.ends.minus(r.begins) }

// usage reads the usage of the components.
func (s *environment) usage(ctx context.Context) (reading, error) {
	ends, err := s.processorTime()
	if err != nil {
		return reading{}, err
	}
	for i, bytes := range []*float64{&ends.Bytes, &ends.BareBytes} {
		if *bytes, err = received(ctx, s.proxies[i]); err != nil {
			return reading{}, err
		}
	}
	begins, err := s.processorTime()
	begins.Bytes, begins.BareBytes = ends.Bytes, ends.BareBytes
	return reading{begins, ends}, err
}

// processorTime returns usage without bytes.
func (s *environment) processorTime() (usage, error) {
	now := usage{seconds: time.Since(s.began).Seconds()}
	var errs [3]error
	now.Interceptor, errs[0] = s.interceptorAt.CPU()
	now.Proxy, errs[1] = s.proxiesAt[0].MainThreadCPU()
	now.BareProxy, errs[2] = s.proxiesAt[1].MainThreadCPU()
	return now, errors.Join(errs[:]...)
}

// idleRate returns the usage of an idle second.
func (s *environment) idleRate(ctx context.Context) (usage, error) {
	before, err := s.usage(ctx)
	if err != nil {
		return usage{}, err
	}
	if err := pace.Wait(ctx, idleWindow); err != nil {
		return usage{}, err
	}
	after, err := s.usage(ctx)
	used := before.until(after)
	return used.per(used.seconds), err
}

// costOf returns the usage per weight, without the idle usage.
func costOf(used, idleRate usage, weights int) usage {
	return used.minus(idleRate.per(1 / used.seconds)).per(float64(weights))
}

// received returns the number of bytes that an Envoy has received from its discovery server.
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
