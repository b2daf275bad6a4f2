// Package routerbench measures a router as the Argo Rollouts controller uses it: the built plugin, over go-plugin,
// against a real etcd and kube-apiserver, with the controller's ServiceAccount. Interleaved rounds of the same run
// measure two lower bounds: a bare client that writes the same to the same objects, and a no-op plugin.
//
// It prints medians over the rounds as a table and as JSON, and fails when a limit is missed.
package routerbench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/benchresult"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/pluginprocess"
	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
)

// minRepeats is the minimum number of measured rounds.
const minRepeats = 5

// Benchmark is the benchmark of one router.
type Benchmark struct {
	// Name is the program's name in messages.
	Name string
	// Plugin is the router's name in Rollouts.
	Plugin string
	// Command is the plugin's folder below cmd.
	Command string
	// Resource is the name, in paths, of the resource that the router writes.
	Resource string
	// Subject contains the functions for that resource.
	Subject Subject
}

// Subject is the resource that a router writes, and its setup.
type Subject interface {
	// Flags adds the benchmark's own flags.
	Flags(flags *flag.FlagSet, getenv func(string) string)
	// Check returns an error if one of these flags is invalid.
	Check() error
	// Workload describes the objects in one line.
	Workload() string
	// Setup installs what the router needs, from the repository in the folder repo, and creates the objects.
	Setup(ctx context.Context, clients Clients, repo string) error
	// Cases are measured in sequence in every round.
	Cases() []Case
	// Rollout returns Rollout n of a case.
	Rollout(of Case, n int) *v1alpha1.Rollout
	// BareWrites returns a function by which the bare client sets the canary's weight in every object of Rollout n. It
	// writes what the router writes, and does nothing else. It is valid until another client writes these objects.
	// Their current weight must differ.
	BareWrites(ctx context.Context, of Case, weight uint32) (write func(n int) error, err error)
	// ReportStatus reports for the objects of some Rollouts what the data plane reports after SetWeight(0).
	ReportStatus(ctx context.Context, of Case, rollouts []int) error
	// CheckWeights returns an error with the name of an object of these Rollouts whose canary has another weight.
	CheckWeights(ctx context.Context, of Case, rollouts []int, weight uint32) error
}

// Clients are clients of the API server.
type Clients struct {
	// Admin has all permissions.
	Admin *rest.RESTClient
	// Bare uses the controller's ServiceAccount, like the plugin.
	Bare *rest.RESTClient
}

// Case is one combination of concurrency and workload.
type Case struct {
	// Name is the case's name in the table.
	Name string
	// Workers is the number of concurrent callers.
	Workers int
	// Rollouts is the number of Rollouts. Calls is the number of calls of each kind in a round, each for another
	// Rollout.
	Rollouts, Calls int
	// Objects is the number of objects per Rollout.
	Objects int
	// MinResync is the limit for the rate of idle resyncs, in multiples of the no-op plugin's. 0 for none.
	MinResync float64
	// Kill kills the plugins during calls in each round.
	Kill bool
}

// options are the common command line options.
type options struct {
	binaries apiserver.Binaries
	repo     string
	json     string
	repeats  int
}

// Main is the main function of a benchmark. Started as a plugin, it is the no-op plugin.
func Main(b Benchmark) {
	if ServedNoop(os.Getenv) {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := b.run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", b.Name, err)
		os.Exit(1) //nolint:gocritic // only the handling of signals ends with the process
	}
}

// run is the program with its environment as arguments.
func (b Benchmark) run(
	ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer,
) (err error) {
	chosen, err := b.options(args, getenv, stderr)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	results, err := b.measure(ctx, chosen, folder, stderr)
	if err != nil {
		return err
	}
	results.table(stdout)
	return benchresult.Publish(results, results.Limits, chosen.json, stdout)
}

// options parses the command line.
func (b Benchmark) options(args []string, getenv func(string) string, stderr io.Writer) (options, error) {
	var chosen options
	flags := flag.NewFlagSet(b.Name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	chosen.binaries.Flags(flags, getenv)
	flags.StringVar(&chosen.repo, "repo", ".", "`folder` of the repository, for its manifests")
	flags.StringVar(&chosen.json, "json", "", "`file` for the results as JSON, instead of stdout")
	flags.IntVar(&chosen.repeats, "repeats", 7, fmt.Sprintf("`number` of measured rounds, at least %d", minRepeats))
	b.Subject.Flags(flags, getenv)
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	switch {
	case chosen.binaries.Etcd == "" || chosen.binaries.APIServer == "":
		return options{}, errors.New("set ETCD_BIN and KUBE_APISERVER_BIN, or --etcd and --kube-apiserver, to the files " +
			"of etcd and kube-apiserver")
	case chosen.repeats < minRepeats:
		return options{}, fmt.Errorf("--repeats is %d: at least %d", chosen.repeats, minRepeats)
	}
	return chosen, b.Subject.Check()
}

// measure starts everything, measures, and stops everything.
func (b Benchmark) measure(
	ctx context.Context, chosen options, folder string, progress io.Writer,
) (results report, err error) {
	plane, kubeconfig := filepath.Join(folder, "controlplane"), filepath.Join(folder, "kubeconfig")
	if err := os.Mkdir(plane, 0o700); err != nil {
		return report{}, err
	}
	if err := program.BuildIn(ctx, chosen.repo, folder, b.Command); err != nil {
		return report{}, err
	}
	// A garbage collection would double the result of the half of a round in which it happens, the router's or the bare
	// client's.
	chosen.binaries.Environment = []string{apiserver.InfrequentGC}
	cluster, err := apiserver.Start(ctx, chosen.binaries, plane)
	if err != nil {
		return report{}, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	m := measurement{Benchmark: b}
	if m.clients.Admin, err = cluster.Client(apiserver.AdminToken); err != nil {
		return report{}, err
	}
	if m.clients.Bare, err = cluster.Client(apiserver.RolloutsToken); err != nil {
		return report{}, err
	}
	if err := b.Subject.Setup(ctx, m.clients, chosen.repo); err != nil {
		return report{}, err
	}
	if err := cluster.WriteKubeconfig(kubeconfig, apiserver.RolloutsToken); err != nil {
		return report{}, err
	}
	end, err := m.startPlugins(filepath.Join(folder, b.Command), kubeconfig, progress)
	if err != nil {
		return report{}, err
	}
	defer end()
	return m.rounds(ctx, chosen.repeats, progress)
}

// startPlugins starts the router and the no-op plugin, which is this program.
func (m *measurement) startPlugins(binary, kubeconfig string, log io.Writer) (end func(), err error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	newRunner := func(binary string, args ...string) *pluginRunner {
		return &pluginRunner{
			start: func() (*pluginprocess.Process, error) { return pluginprocess.Start(binary, kubeconfig, log, args...) },
		}
	}
	m.router, m.noop = newRunner(binary, "--log-level=warn"), newRunner(executable)
	end = func() { m.noop.end(); m.router.end() }
	for _, runner := range []*pluginRunner{m.router, m.noop} {
		if _, err := runner.plugin(); err != nil {
			end()
			return nil, err
		}
	}
	return end, nil
}
