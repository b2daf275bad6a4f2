package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// keptRuns is how many runs keep their logs.
const keptRuns = 10

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// tiers are the tiers by their names.
func tiers() map[string]func() []Stage {
	return map[string]func() []Stage{"quick": quick, "landing": landing, "full": full}
}

// options are the parsed command line.
type options struct {
	stages       []Stage
	tier         string
	fresh, lists bool
	cacheFolder  string
	chart, addOn string
	versions     []version // whose results are printed
}

// parse reads the command line.
func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var only, page string
	flags := flag.NewFlagSet("ci", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: ci [flags] quick|landing|full")
		flags.PrintDefaults()
	}
	flags.BoolVar(&o.fresh, "fresh", false, "ignore the cache: run all stages")
	flags.BoolVar(&o.lists, "list", false, "print the stages without running them")
	flags.StringVar(&only, "only", "", "comma-separated `stages` to run, with the stages that they need")
	flags.StringVar(&page, "compatibility", "", "`page` with a table of versions: print the result of each version, and "+
		"without --only run only the stages that the page names")
	flags.StringVar(&o.cacheFolder, "cache", "", "`folder` of logs and records")
	flags.StringVar(&o.chart, "chart", "",
		"`folder` of argo-helm's chart argo-rollouts, which the tiers landing and full need")
	flags.StringVar(&o.addOn, "add-on", "",
		"`folder` with the source of the KEDA HTTP add-on, which the tiers landing and full need")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	o.tier = flags.Arg(0)
	tier, found := tiers()[o.tier]
	if !found || flags.NArg() != 1 {
		return options{}, fmt.Errorf("invalid usage: want one tier of quick, landing, full, not %q", flags.Args())
	}
	if o.cacheFolder == "" {
		return options{}, errors.New("--cache is missing: run this program by .ci/run, make ci-quick or make ci-full")
	}
	var err error
	if page != "" {
		if o.versions, err = readVersions(page); err != nil {
			return options{}, err
		}
		if only == "" {
			only = strings.Join(stagesOf(o.versions), ",")
		}
	}
	o.stages, err = choose(tier(), only)
	return o, err
}

// choose returns the named stages with everything they need, or all stages if none is named.
func choose(stages []Stage, only string) ([]Stage, error) {
	if only == "" {
		return stages, nil
	}
	wanted := strings.Split(only, ",")
	for i := 0; i < len(wanted); i++ {
		at := slices.IndexFunc(stages, func(s Stage) bool { return s.Name == wanted[i] })
		if at < 0 {
			return nil, fmt.Errorf("--only: there is no stage %q: see --list", wanted[i])
		}
		wanted = append(wanted, stages[at].Needs...)
	}
	return slices.DeleteFunc(stages, func(s Stage) bool { return !slices.Contains(wanted, s.Name) }), nil
}

// command is the whole program. The result is its exit status: 2 for a usage error, 1 if the checks failed.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 2
	}
	if o.lists {
		for _, s := range o.stages {
			fmt.Fprintf(stdout, "%-16s make %s\n", s.Name, strings.Join(s.Make, " "))
		}
		return 0
	}
	if os.Geteuid() != 0 {
		fmt.Fprintln(stderr, `root is needed: the stages start a cluster. Run: sudo env "PATH=$PATH" "HOME=$HOME" .ci/run`)
		return 2
	}
	root, err := os.Getwd()
	if err == nil && o.tier != "quick" {
		err = errors.Join(checkChart(o.chart), checkAddOn(o.addOn))
	}
	if err == nil {
		err = runTier(ctx, o, root, stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// checkChart returns an error if the chart is missing: the tests of Option A of docs/how-to/install-plugins.md would be
// skipped.
func checkChart(folder string) error {
	return checkFolder("CHART", folder, "Chart.yaml", "the folder of argo-helm's chart argo-rollouts: "+
		"clone argo-helm, and set CHART=argo-helm/charts/argo-rollouts")
}

// checkAddOn returns an error if the source of the add-on is missing: the tests of docs/how-to/migrate.md would be
// skipped.
func checkAddOn(folder string) error {
	return checkFolder("ADD_ON", folder, "config/default/kustomization.yaml", "the source of the KEDA HTTP add-on: "+
		"clone kedacore/http-add-on, and set ADD_ON=http-add-on")
}

// checkFolder returns an error if the folder in a variable does not contain a file. wanted describes the folder, and how
// to get it.
func checkFolder(variable, folder, file, wanted string) error {
	if _, err := os.Stat(filepath.Join(folder, filepath.FromSlash(file))); folder == "" || err != nil {
		return fmt.Errorf("%s: %q is not %s", variable, folder, wanted)
	}
	return nil
}

// runTier runs the stages, ends the shared cluster, and prints the summary. The error is nil if the checks passed.
func runTier(ctx context.Context, o options, root string, stdout io.Writer) error {
	begun := time.Now()
	runs := filepath.Join(o.cacheFolder, "ci")
	logs := filepath.Join(runs, fmt.Sprintf("%s-%d", begun.UTC().Format("20060102T150405Z"), os.Getpid()))
	records := cache{root: root, folder: filepath.Join(o.cacheFolder, "passed"), isFresh: o.fresh}
	if err := errors.Join(os.MkdirAll(logs, 0o755), records.prune(begun), pruneRuns(runs)); err != nil {
		return err
	}
	sh := &shell{root: root, logs: logs, cache: records, out: &lockedWriter{out: stdout}, begun: begun}
	sh.out.printf("logs: %s\n", logs)
	results := Run(ctx, o.stages, sh)
	down := Stage{Name: "cluster-down"}
	downErr := sh.make(context.WithoutCancel(ctx), down, filepath.Join(logs, "cluster-down.log"), []string{"cluster-down"})
	if downErr != nil {
		results = append(results, Result{Stage: down, Status: Failed, Log: filepath.Join(logs, "cluster-down.log")})
	}
	if len(o.versions) > 0 {
		sh.out.printf("%s", compatibility(o.versions, results))
	}
	sum := summarize(o.tier, results, time.Since(begun))
	text, err := json.Marshal(sum)
	if err != nil {
		return err
	}
	sh.out.printf("%s%s\n", table(results), text)
	if err := os.WriteFile(filepath.Join(logs, "summary.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
	if !sum.Passed {
		return errChecks
	}
	return nil
}

// errChecks means that the checks did not pass. The summary lists the failed ones.
var errChecks = errors.New("the checks failed")

// pruneRuns removes the logs of all runs except the last ones.
func pruneRuns(folder string) error {
	entries, err := os.ReadDir(folder) // sorted by name, which begins with the time
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range entries[:max(0, len(entries)-keptRuns)] {
		err = errors.Join(err, os.RemoveAll(filepath.Join(folder, entry.Name())))
	}
	return err
}
