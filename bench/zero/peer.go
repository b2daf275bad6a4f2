package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics/sink"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/netspace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/process"
	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
	"github.com/kedify/argo-rollouts-plugin/test/kit/traffic"
)

const (
	// peerPort, peerAdminPort and peerMetricsPort are the ports of the peer, on all addresses.
	peerPort, peerAdminPort, peerMetricsPort = 8070, 9070, 2224
	// peerProgram is the name of the built peer.
	peerProgram = "http-add-on-interceptor"
)

var errPeer = errors.New("the KEDA HTTP add-on's interceptor")

// buildPeer builds the interceptor of the KEDA HTTP add-on from its source.
func buildPeer(ctx context.Context, source, folder string) error {
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false", //nolint:gosec // the developer specifies the source
		"-ldflags=-s -w", "-o", filepath.Join(folder, peerProgram), "./interceptor")
	build.Dir, build.Env = source, append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: build: %w\n%s", errPeer, err, output)
	}
	return nil
}

// startPeer starts it with the environment of its own Deployment. It routes the same HTTPScaledObjects as the
// interceptor, and connects to Pods by their own addresses as the interceptor does: there is no kube-proxy here.
func (s *environment) startPeer(ctx context.Context) error {
	definition := filepath.Join(s.options.peer, "config/crd/bases/http.keda.sh_interceptorroutes.yaml")
	if err := apiserver.ApplyFiles(ctx, s.Admin, "", definition); err != nil {
		return fmt.Errorf("%w: %w", errPeer, err)
	}
	kubeconfig := filepath.Join(s.Folder, "peer.kubeconfig")
	if err := s.Plane.WriteKubeconfig(kubeconfig, apiserver.AdminToken); err != nil {
		return err
	}
	var err error
	s.peer, err = program.Start(ctx, s.Folder, "env", "KUBECONFIG="+kubeconfig,
		fmt.Sprint("KEDA_HTTP_PROXY_PORT=", peerPort),
		fmt.Sprint("KEDA_HTTP_ADMIN_PORT=", peerAdminPort), fmt.Sprint("OTEL_PROM_EXPORTER_PORT=", peerMetricsPort),
		"KEDA_HTTP_DIRECT_POD_ROUTING=true", filepath.Join(netspace.Folder(), peerProgram),
		"--zap-log-level=info", "--zap-encoder=console", "--zap-time-encoding=rfc3339")
	if err != nil {
		return err
	}
	err = s.peer.Await(ctx, func(ctx context.Context) error {
		answer, err := traffic.Get(ctx, peerAdmin("/readyz"), "", nil)
		if err == nil && answer.Status != http.StatusOK {
			err = fmt.Errorf("%w: /readyz answers %d", errPeer, answer.Status)
		}
		return err
	})
	if err != nil {
		return err
	}
	at, err := process.Find(s.peer.PID())
	s.paths = append(s.paths, path{
		name: "http-add-on", proxy: net.JoinHostPort("127.0.0.1", strconv.Itoa(peerPort)),
		held: pendingAt(peerAdmin(sink.QueuePath)), parts: []process.Folder{at},
	})
	return err
}

// peerAdmin returns the URL of one of the peer's own paths.
func peerAdmin(path string) string { return fmt.Sprint("http://127.0.0.1:", peerAdminPort, path) }

// pendingAt returns the function that reads the number of pending requests, which their apps have not answered, from the
// URL of /queue. The peer's and the interceptor's have the same format.
func pendingAt(url string) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		answer, err := traffic.Get(ctx, url, "", nil)
		if err != nil {
			return 0, err
		}
		var queues map[string]struct{ Concurrency int }
		if err := json.Unmarshal(answer.Body, &queues); err != nil {
			return 0, fmt.Errorf("%w: %s in %s", err, url, answer.Body)
		}
		sum := 0
		for _, queue := range queues {
			sum += queue.Concurrency
		}
		return sum, nil
	}
}

// path is a path of requests to the apps.
type path struct {
	name, proxy string
	// held returns the number of waiting requests.
	held func(context.Context) (int, error)
	// parts are the processes that a request passes through, or that decide about it. The proxy is the first.
	parts []process.Folder
}

// spent is the processor time of all processes of a path and of its proxy alone, in microseconds.
type spent struct{ all, proxy float64 }

// spent reads it.
func (w path) spent() (spent, error) {
	var sum spent
	var errs error
	for i, part := range w.parts {
		used, err := part.CPU()
		if errs = errors.Join(errs, err); i == 0 {
			sum.proxy = used
		}
		sum.all += used
	}
	return sum, errs
}

// per returns the cost per request since before.
func (s spent) per(before spent, requests float64) spent {
	return spent{(s.all - before.all) / requests, (s.proxy - before.proxy) / requests}
}

// awaitHeld polls until the given number of requests is queued.
func (w path) awaitHeld(ctx context.Context, want int, pause time.Duration) error {
	for end := time.Now().Add(timeout); ; {
		queued, err := w.held(ctx)
		if err == nil && queued == want {
			return nil
		}
		if time.Now().After(end) {
			return errors.Join(fmt.Errorf("%w: %d requests are queued by %s, want %d", errTimeout, queued, w.name, want), err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}
