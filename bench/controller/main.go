// Command controller measures how many idle Rollouts per second the real Argo Rollouts controller reconciles,
// alternating between the router kedify/http and a no-op plugin. It measures the router's worst case: interceptors are
// alive and no proxy is Ready, so no weight can be verified. A call that waited for a proxy would block all of the
// controller's workers.
//
// A real etcd and kube-apiserver contain the Rollouts. The controller's resync interval is one second, which it cannot
// keep, and the reconciles in its log are counted.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/benchresult"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/routerbench"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/stopwatch"
	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
	"github.com/kedify/argo-rollouts-plugin/test/kit/rolloutscontroller"
)

const (
	command = "rollouts-plugin-kedify"
	// minRate is the lowest allowed rate of reconciles, in multiples of the no-op plugin's.
	minRate = 0.5
	// readyLimit bounds the time until all Rollouts are in the phase Healthy.
	readyLimit = 20 * time.Minute
	// idleShare is the share of all Rollouts reconciled per second above which the controller may be idle, given its
	// resync interval.
	idleShare = 0.8
	// pollEvery is the polling interval.
	pollEvery = time.Second
)

// errIdle is returned if the controller is not the bottleneck.
var errIdle = errors.New("the controller keeps up with the Rollouts: the rates are meaningless")

// options are the command line options.
type options struct {
	binaries                        apiserver.Binaries
	repo, json, controller, install string
	rollouts, repeats               int
	span                            time.Duration
}

func main() {
	if routerbench.ServedNoop(os.Getenv) {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "bench/controller: %v\n", err)
		os.Exit(1) //nolint:gocritic // only the handling of signals ends with the process
	}
}

// parse parses the command line.
func parse(args []string, getenv func(string) string, stderr io.Writer) (options, error) {
	var chosen options
	flags := flag.NewFlagSet("bench/controller", flag.ContinueOnError)
	flags.SetOutput(stderr)
	chosen.binaries.Flags(flags, getenv)
	flags.StringVar(&chosen.repo, "repo", ".", "`folder` of the repository, for its manifests")
	flags.StringVar(&chosen.json, "json", "", "`file` for the results as JSON, instead of stdout")
	flags.StringVar(&chosen.controller, "controller", getenv("ROLLOUTS_CONTROLLER_BIN"),
		"`file` of the Argo Rollouts controller; by default $ROLLOUTS_CONTROLLER_BIN")
	flags.StringVar(&chosen.install, "install", getenv("ROLLOUTS_INSTALL_YAML"),
		"`file` of its install.yaml; by default $ROLLOUTS_INSTALL_YAML")
	flags.IntVar(&chosen.rollouts, "rollouts", 1000, "`number` of Rollouts")
	flags.IntVar(&chosen.repeats, "repeats", 5, "`number` of rounds")
	flags.DurationVar(&chosen.span, "span", 10*time.Second, "how long a round counts the reconciles of each plugin")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if chosen.controller == "" || chosen.install == "" || chosen.binaries.Etcd == "" || chosen.binaries.APIServer == "" {
		return options{}, errors.New("set ETCD_BIN, KUBE_APISERVER_BIN, ROLLOUTS_CONTROLLER_BIN and ROLLOUTS_INSTALL_YAML, " +
			"or their flags: see --help")
	}
	return chosen, nil
}

// run is the program with its environment as arguments.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) (err error) {
	chosen, err := parse(args, getenv, stderr)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	rates, err := measure(ctx, chosen, folder, stderr)
	if err != nil {
		return err
	}
	if noopRate := stopwatch.Median(rates[noop]); noopRate > idleShare*float64(chosen.rollouts) {
		return fmt.Errorf("%w: %.0f of %d a second: set --rollouts to more", errIdle, noopRate, chosen.rollouts)
	}
	ours, nothing := stopwatch.Median(rates[command]), stopwatch.Median(rates[noop])
	limits := []benchresult.Limit{{
		Name:  fmt.Sprintf("controller, %d idle Rollouts, no Ready proxy: reconciles / no-op plugin", chosen.rollouts),
		Value: ratio(rates[command], rates[noop]), Limit: minRate, AtLeast: true,
		Of: fmt.Sprintf("%.0f/s, no-op plugin %.0f/s", ours, nothing),
	}}
	columns := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	benchresult.Print(columns, limits, "")
	if err := columns.Flush(); err != nil {
		return err
	}
	return benchresult.Publish(map[string]any{"plugin": httpso.Type, "reconcilesPerSecond": rates, "limits": limits},
		limits, chosen.json, stdout)
}

// ratio returns the median of the rounds' ratios.
func ratio(ours, base []float64) float64 {
	ratios := make([]float64, len(base))
	for i := range base {
		ratios[i] = ours[i] / base[i]
	}
	return stopwatch.Median(ratios)
}

// noop is the name of the no-op plugin in results.
const noop = "no-op plugin"

// measure starts everything, counts reconciles of the plugins in turn, and stops everything. The rates are reconciles
// per second, by plugin.
func measure(
	ctx context.Context, chosen options, folder string, progress io.Writer,
) (rates map[string][]float64, err error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if err := program.BuildIn(ctx, chosen.repo, folder, command); err != nil {
		return nil, err
	}
	state := filepath.Join(folder, "controlplane")
	if err := os.Mkdir(state, 0o700); err != nil {
		return nil, err
	}
	plane, err := apiserver.Start(ctx, chosen.binaries, state)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	admin, err := plane.Client(apiserver.AdminToken)
	if err != nil {
		return nil, err
	}
	b := bench{options: chosen, plane: plane, admin: admin, folder: folder, files: map[string]string{
		command: filepath.Join(folder, command), noop: executable,
	}}
	if err := b.setup(ctx); err != nil {
		return nil, err
	}
	fmt.Fprintf(progress, "%d Rollouts are Healthy\n", chosen.rollouts)
	rates = map[string][]float64{}
	for round := range chosen.repeats {
		for _, plugin := range []string{command, noop} {
			rate, err := b.rate(ctx, plugin, fmt.Sprintf("round-%d-%d", round, len(rates[command])+len(rates[noop])))
			if err != nil {
				return nil, fmt.Errorf("round %d, %s: %w", round, plugin, err)
			}
			fmt.Fprintf(progress, "round %d of %d: %.0f reconciles a second, %s\n", round+1, chosen.repeats, rate, plugin)
			rates[plugin] = append(rates[plugin], rate)
		}
	}
	return rates, nil
}

// bench is a running API server with Rollouts.
type bench struct {
	options

	plane  *apiserver.ControlPlane
	admin  *rest.RESTClient
	folder string
	files  map[string]string // of the plugins
}

// start starts a controller with one of the plugins as kedify/http.
func (b bench) start(
	ctx context.Context, plugin, home string, flags ...string,
) (*rolloutscontroller.Controller, error) {
	registration := rolloutscontroller.Registration(map[string]string{httpso.Type: b.files[plugin]})
	if err := apiserver.Apply(ctx, b.admin, rolloutscontroller.Namespace, registration); err != nil {
		return nil, err
	}
	return rolloutscontroller.Start(b.plane, b.controller, filepath.Join(b.folder, home),
		append(flags, "--leader-elect=false", "--qps=1000", "--burst=2000")...)
}

// rate counts the reconciles of a controller after it has reconciled each Rollout at least once.
func (b bench) rate(ctx context.Context, plugin, home string) (rate float64, err error) {
	controller, err := b.start(ctx, plugin, home, "--rollout-resync=1")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, controller.Kill()) }()
	err = eventually(ctx, "two reconciles of each Rollout", func() (bool, error) {
		done, err := controller.Reconciles()
		return done >= 2*b.rollouts, err
	})
	if err != nil {
		return 0, err
	}
	before, err := controller.Reconciles()
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(b.span):
	}
	after, err := controller.Reconciles()
	return float64(after-before) / time.Since(begun).Seconds(), err
}

// eventually polls until ready returns true.
func eventually(ctx context.Context, what string, ready func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for {
		isReady, err := ready()
		if isReady || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %v: %w", what, readyLimit, ctx.Err())
		case <-time.After(pollEvery):
		}
	}
}

// healthy counts the Healthy Rollouts.
func (b bench) healthy(ctx context.Context) (int, error) {
	text, err := b.admin.Get().AbsPath("/apis/argoproj.io/v1alpha1/rollouts").Param("resourceVersion", "0").DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	var list struct {
		Items []struct{ Status struct{ Phase string } }
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return 0, err
	}
	count := 0
	for _, item := range list.Items {
		if strings.EqualFold(item.Status.Phase, "Healthy") {
			count++
		}
	}
	return count, nil
}
