package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kedify/argo-rollouts-plugin/localcluster/cluster"
	"github.com/kedify/argo-rollouts-plugin/localcluster/forward"
	"github.com/kedify/argo-rollouts-plugin/localcluster/images"
	"github.com/kedify/argo-rollouts-plugin/localcluster/pki"
)

const (
	// startTimeout bounds the start of one component, on the slowest machine. A component that fails ends, and is
	// reported at once.
	startTimeout = 10 * time.Minute
	// usualStart is the number of seconds in which all components start on a slow ordinary machine; 6 were measured on
	// two cores.
	usualStart = 15
	// restartDelay limits the restarts of a component that exits immediately.
	restartDelay = 300 * time.Millisecond
)

// Run starts the cluster inside its namespaces and runs it until the context ends. It reports each step. The listeners
// belong to config.Forwards, in the same order. If a component fails while the cluster starts, Run returns an error
// with its name and the end of its log. A component that exits later is restarted.
func Run(ctx context.Context, config Config, listeners []net.Listener, report *Reporter) error {
	s := config.Settings
	if err := prepare(s); err != nil {
		return err
	}
	handler, err := images.Handler(s.Path("registry"))
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	registries, err := listenRegistry(ctx, config)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: images.RequireCredentials(handler), ReadHeaderTimeout: time.Minute}
	for _, registry := range registries {
		group.Go(func() error { return ignoreClosed(server.Serve(registry)) })
	}
	group.Go(func() error { <-ctx.Done(); return server.Close() })
	published := make(chan error, 1)
	go func() {
		err := images.Publish(ctx, config.Images, s.Registry(), runtime.GOARCH)
		if err == nil {
			report.Report(Starting, fmt.Sprintf("%d images are served", len(config.Images)))
		}
		published <- err
	}()
	for i, listener := range listeners {
		group.Go(func() error {
			target, err := forward.NewTarget(config.Forwards[i].Target, resolver(s).LookupHost)
			if err != nil {
				return err
			}
			return forward.Serve(ctx, listener, target.Dial)
		})
	}
	group.Go(func() error { return start(ctx, config, group, published, report) })
	return group.Wait()
}

// RegistrySocket is the name, in the run directory, of the socket by which the owner publishes images from the host.
const RegistrySocket = "registry.sock"

// listenRegistry opens the image registry for the node and for the owner.
func listenRegistry(ctx context.Context, config Config) ([]net.Listener, error) {
	inside, err := (&net.ListenConfig{}).Listen(ctx, "tcp", config.Settings.Registry())
	if err != nil {
		return nil, fmt.Errorf("open the image registry: %w", err)
	}
	outside, err := images.Listen(ctx, config.Settings.Path(RegistrySocket), config.Owner)
	if err != nil {
		return nil, err
	}
	return []net.Listener{inside, outside}, nil
}

// start starts everything, in order.
func start(ctx context.Context, config Config, group *errgroup.Group, published <-chan error, report *Reporter) error {
	n := &supervisor{settings: config.Settings, group: group, report: report}
	began := time.Now()
	if err := n.startAll(ctx, cluster.Components(config.Settings)); err != nil {
		return err
	}
	slowness := Slowness(time.Since(began).Seconds())
	if err := <-published; err != nil {
		return err
	}
	kubectl := Kubectl{Program: filepath.Join(config.Settings.Bin, "kubectl"), Env: environment(config.Settings)}
	for _, step := range config.Steps {
		began := time.Now()
		if err := kubectl.Run(ctx, step.Args, time.Duration(slowness*float64(step.Timeout))); err != nil {
			return fmt.Errorf("%s: %w%s", step.Title, err, warnings(ctx, kubectl))
		}
		report.Report(Starting, fmt.Sprintf("%s (%.1f s)", step.Title, time.Since(began).Seconds()))
	}
	report.Report(Ready, "the cluster is ready")
	return nil
}

// prepare sets up the network, the certificates and the configuration files.
func prepare(s cluster.Settings) error {
	if err := prepareNetwork(s); err != nil {
		return err
	}
	now := time.Now()
	ca, err := pki.NewAuthority("localcluster-ca", now)
	if err != nil {
		return err
	}
	frontProxy, err := pki.NewAuthority("localcluster-front-proxy-ca", now)
	if err != nil {
		return err
	}
	if err := pki.WriteAll(s.Path("pki"), cluster.Certificates(s), ca, frontProxy); err != nil {
		return err
	}
	files := cluster.Files(s)
	for path, content := range files {
		if err := writeFile(s.Path(path), content, cluster.Executable(path)); err != nil {
			return err
		}
	}
	return nil
}

// Slowness is the factor, from 1 to 20, by which operations take longer than usual on a machine where the components
// started in the given number of seconds.
func Slowness(start float64) float64 { return min(max(start/usualStart, 1), 20) }

func writeFile(path, content string, executable bool) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("create the folder of %s: %w", path, err)
	}
	mode := os.FileMode(0o644)
	if executable {
		mode = 0o755
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// warnings returns the last events, which may explain why something does not become ready.
func warnings(ctx context.Context, k Kubectl) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout*5)
	defer cancel()
	command := exec.CommandContext(ctx, k.Program, "get", "events", "-A", "--field-selector=type=Warning",
		"--sort-by=.lastTimestamp")
	command.Env = k.Env
	out, err := command.Output()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil || len(lines) < 2 {
		return ""
	}
	return "\nthe last warnings in the cluster:\n" + strings.Join(lines[max(1, len(lines)-5):], "\n")
}

// resolver queries the cluster's own DNS.
func resolver(s cluster.Settings) *net.Resolver {
	return &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(s.Addresses.DNS, "53"))
		},
	}
}
