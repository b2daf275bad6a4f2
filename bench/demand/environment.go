package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/bareserver"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/pace"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/coldstart"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyproc"
	"github.com/kedify/argo-rollouts-plugin/test/kit/netspace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/process"
	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
)

const (
	// patience bounds each wait. look is the polling interval.
	patience, pollInterval = 3 * time.Minute, 100 * time.Millisecond
	// visits are the requests that each app received, each over a connection of its own. The kernel distributes them
	// over the two proxies.
	visits = 8
)

var errAnswer = errors.New("unexpected answer")

// environment contains all running processes.
type environment struct {
	*coldstart.Testbed

	options options
	replica *coldstart.Replica
	second  *envoyproc.Envoy
	scaler  *program.Process
	// scalerArguments are additional arguments of the scaler.
	scalerArguments []string
	// parts are the folders in /proc of the interceptor and of the scaler.
	parts [2]process.Folder
}

// secondProxy is the address of the second proxy. The first one has the network's address.
func secondProxy() netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, 200}) }

// start starts everything, and sends requests to each app.
func start(ctx context.Context, chosen options, progress io.Writer) (s *environment, err error) {
	folder, err := os.MkdirTemp("", "bench-demand")
	if err != nil {
		return nil, err
	}
	arguments := []string{"--max-objects-per-namespace=0", "--max-hosts-per-namespace=0"}
	s = &environment{options: chosen}
	if chosen.profiles != "" {
		arguments = append(arguments, "--pprof")
		s.scalerArguments = []string{"--pprof", "--metrics-address=" + scalerProfiles}
	}
	s.Testbed, err = coldstart.Start(ctx, coldstart.Options{
		Binaries: chosen.Binaries, Envoy: chosen.Envoy, Repository: chosen.Repository, Built: netspace.Folder(),
		Folder: folder, Apps: chosen.objects, QueueDeadline: patience, Workers: 1,
		Arguments: arguments,
	})
	if err != nil {
		return nil, err
	}
	if err = s.startRest(ctx); err == nil {
		fmt.Fprintln(progress, "all components run")
		err = s.sendRequests(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	fmt.Fprintln(progress, "each app has received requests")
	// Until then the request rates of all of them fall, second by second.
	if err := pace.Wait(ctx, metrics.DefaultWindow); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	fmt.Fprintln(progress, "and its rate is zero again")
	return s, nil
}

// startRest starts the processes that the Testbed does not start.
func (s *environment) startRest(ctx context.Context) (err error) {
	if err := s.ForEachApp(ctx,
		func(ctx context.Context, app int) error { return s.SetReady(ctx, app, true) }); err != nil {
		return err
	}
	if s.replica, err = s.StartInterceptor(ctx, 0); err != nil {
		return err
	}
	if err := s.StartProxy(ctx); err != nil {
		return err
	}
	if err := s.startSecondProxy(ctx); err != nil {
		return err
	}
	if s.scaler, err = s.StartScaler(ctx, s.scalerArguments...); err != nil {
		return err
	}
	for i, pid := range []int{s.replica.PID(), s.scaler.PID()} {
		if s.parts[i], err = process.Find(pid); err != nil {
			return err
		}
	}
	return nil
}

// startSecondProxy starts a proxy with an address of its own, on the same port: the interceptor identifies proxies by
// their source addresses.
func (s *environment) startSecondProxy(ctx context.Context) (err error) {
	slice := kit.NewEndpointSlice(coldstart.Namespace, resolve.ProxyService, secondProxy().String())
	slice.Name = resolve.ProxyService + "-second"
	slice.Ports[0].Port = new(int32(translate.ListenerPort))
	path := "/apis/" + discoveryv1.SchemeGroupVersion.String() + "/namespaces/" + coldstart.Namespace + "/endpointslices"
	if err := apiserver.Create(ctx, s.Admin, path, slice); err != nil {
		return err
	}
	s.second, err = bareserver.Proxy{
		Binary: s.options.Envoy, Repository: s.Repository, Folder: s.Folder, Source: secondProxy(),
		Discovery: netip.AddrPortFrom(s.replica.Address, 5678), Sink: netip.AddrPortFrom(s.replica.Address, 9901),
	}.Start(ctx)
	return err
}

// sendRequests sends requests to each app, so that each proxy has statistics of it from then on.
func (s *environment) sendRequests(ctx context.Context) error {
	return s.ForEachApp(ctx, func(ctx context.Context, app int) error {
		for range visits {
			if err := pace.Until(ctx, patience, pollInterval, func() error { return ask(ctx, app) }); err != nil {
				return err
			}
		}
		return nil
	})
}

// ask sends one request to an app.
func ask(ctx context.Context, app int) error {
	answer := <-coldstart.Send(ctx, coldstart.Proxy, app)
	if answer.Err == nil && !answer.IsFromApp {
		return fmt.Errorf("%w: %s: status %d", errAnswer, coldstart.AppHost(app), answer.Status)
	}
	return answer.Err
}

// stop stops everything.
func (s *environment) stop() error {
	var errs error
	if s.scaler != nil {
		errs = s.scaler.Kill()
	}
	if s.second != nil {
		errs = errors.Join(errs, s.second.Kill())
	}
	if s.replica != nil {
		errs = errors.Join(errs, s.replica.Kill())
	}
	return errors.Join(errs, s.Stop())
}

// watch measures both programs for a while. Profiles are named after the measurement.
func (s *environment) watch(ctx context.Context, name string) (programUsage, error) {
	profiled := s.profile(ctx, name)
	found, err := s.measure(ctx)
	return found, errors.Join(err, profiled())
}

// measure measures both programs for a while.
func (s *environment) measure(ctx context.Context) (programUsage, error) {
	var before, after [2]float64
	var errs error
	read := func(into *[2]float64) {
		for i, part := range s.parts {
			used, err := part.CPU()
			into[i], errs = used, errors.Join(errs, err)
		}
	}
	began := time.Now()
	read(&before)
	if err := pace.Wait(ctx, s.options.watched); err != nil {
		return programUsage{}, err
	}
	read(&after)
	elapsed := float64(time.Since(began).Microseconds())
	var found programUsage
	for i, target := range []*usage{&found.Interceptor, &found.Scaler} {
		memory, err := s.parts[i].Memory()
		errs = errors.Join(errs, err)
		*target = usage{
			CorePercent: 100 * (after[i] - before[i]) / elapsed, ResidentMB: memory.Resident, AnonymousMB: memory.Anonymous,
		}
	}
	return found, errs
}
