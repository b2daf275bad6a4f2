package main

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"strconv"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics/sink"
	"github.com/kedify/argo-rollouts-plugin/test/kit/coldstart"
	"github.com/kedify/argo-rollouts-plugin/test/kit/netspace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/process"
	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
)

const (
	// workers is the number of Envoy's workers, as in the manifest of kedify-proxy.
	workers = 2
	// mostApps is the largest number of apps that wake together.
	mostApps = 100
	// timeout bounds each wait. Requests wait longer.
	timeout = 2 * time.Minute
	// adminPort is the interceptor's.
	adminPort = 9090
	// pollInterval is the polling interval.
	pollInterval = 5 * time.Millisecond
)

var errTimeout = errors.New("timed out")

// environment contains all running processes.
type environment struct {
	*coldstart.Testbed

	options options
	replica *coldstart.Replica
	direct  *direct
	peer    *program.Process
	// paths are the interceptor's path, and the peer's if there is one.
	paths []path
	// envoyAt and interceptorAt are their folders in /proc.
	envoyAt, interceptorAt process.Folder
}

// start starts the environment and the direct push.
func start(ctx context.Context, chosen options) (s *environment, err error) {
	folder, err := os.MkdirTemp("", "bench-zero")
	if err != nil {
		return nil, err
	}
	s = &environment{options: chosen}
	most := strconv.Itoa(chosen.held)
	s.Testbed, err = coldstart.Start(ctx, coldstart.Options{
		Binaries: chosen.Binaries, Envoy: chosen.Envoy, Repository: chosen.Repository, Built: netspace.Folder(),
		Folder: folder, Apps: mostApps, QueueDeadline: 2 * timeout, Workers: workers,
		Arguments: []string{
			"--max-queued-per-object=" + most, "--max-queued-per-namespace=" + most, "--max-queued-per-proxy=" + most,
			"--max-queued=" + most,
		},
	})
	if err != nil {
		return nil, err
	}
	if err = s.startRest(ctx); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// startRest starts the processes that the Testbed does not start.
func (s *environment) startRest(ctx context.Context) (err error) {
	if s.replica, err = s.StartInterceptor(ctx, 0); err != nil {
		return err
	}
	if err := s.StartProxy(ctx); err != nil {
		return err
	}
	if s.envoyAt, err = process.Find(s.Envoy.PID()); err != nil {
		return err
	}
	if s.interceptorAt, err = process.Find(s.replica.PID()); err != nil {
		return err
	}
	s.paths = []path{{
		name: "ours", proxy: coldstart.Proxy, held: pendingAt(s.queueURL()),
		parts: []process.Folder{s.envoyAt, s.interceptorAt},
	}}
	if s.direct, err = startDirect(ctx, s.options, s.Folder); err != nil {
		return err
	}
	if s.options.peer != "" {
		err = s.startPeer(ctx)
	}
	return err
}

// queueURL returns the URL of the interceptor's pending requests. It costs less than to read all metrics.
func (s *environment) queueURL() string {
	return "http://" + netip.AddrPortFrom(s.replica.Address, adminPort).String() + sink.QueuePath
}

// stop stops everything.
func (s *environment) stop() error {
	var errs error
	if s.direct != nil {
		errs = s.direct.stop()
	}
	for _, next := range []*program.Process{s.peer, s.interceptor()} {
		if next != nil {
			errs = errors.Join(errs, next.Kill())
		}
	}
	return errors.Join(errs, s.Stop())
}

// interceptor returns its process, nil if there is none.
func (s *environment) interceptor() *program.Process {
	if s.replica == nil {
		return nil
	}
	return s.replica.Process
}
