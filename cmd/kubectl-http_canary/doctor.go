package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/doctor"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts/files"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts/gather"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/output"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// waitInterval is the interval at which doctor --wait checks again.
const waitInterval = 2 * time.Second

var (
	// errFailOn reports an invalid value of --fail-on.
	errFailOn = errors.New("must be error, warning or never")
	// errCategory reports an invalid value of --category.
	errCategory = errors.New("unknown category")
	// errWaitNever reports flags of doctor that contradict each other.
	errWaitNever = errors.New("--wait and --fail-on=never exclude each other: use --fail-on=error to wait until there " +
		"is no error, or --fail-on=warning to wait until there is no finding")
	// errExclusive reports flags of doctor that exclude each other.
	errExclusive = errors.New("--filename, --pre and --wait exclude each other")
)

// doctorOptions are the flags of doctor.
type doctorOptions struct {
	outputFlags

	conn                    *connection
	show                    *display
	isAll, pre, wait, quiet bool
	filenames               []string
	failOn                  string
	categories, suppressed  []string
	timeout                 time.Duration
}

// newDoctor returns the command that checks an installation.
func newDoctor(conn *connection, show *display) *cobra.Command {
	options := &doctorOptions{conn: conn, show: show}
	command := &cobra.Command{
		Use:     "doctor",
		Aliases: []string{"check"},
		Short:   "Check an installation, a cluster before it, or manifests for problems",
		Long: `doctor checks the Argo Rollouts controller and its plugins, permissions, Rollouts and the objects
that they reference, the data plane, and KEDA with the objects that it scales. It prints a line for each check: passed,
failed or warning. For each problem it prints the object, the problem, the fix and the address of its explanation. It
changes nothing.

doctor checks the applications of the namespace given by --namespace or by the context; those of all namespaces with
--all-namespaces, or if neither names one. A warning names the objects that you are not allowed to read.

--pre checks whether a cluster is ready for an installation: its version, your permissions, Argo Rollouts and its
plugin list, objects of other products, and KEDA. --filename checks manifests without a cluster, and names what they
cannot show. --wait checks again until there is no error, or no finding with --fail-on=warning, for at most --timeout.

The exit code is 3 if there is an error, or a warning with --fail-on=warning, and 0 otherwise.`,
		Example: `  # Check everything
  kubectl http-canary doctor --all-namespaces

  # Before an installation
  kubectl http-canary doctor --pre

  # After a deployment: wait until the installation is sound
  kubectl http-canary doctor -A --wait --timeout 5m

  # In a pipeline: check the manifests of a repository
  kubectl http-canary doctor --filename deploy/ --fail-on=warning`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			return options.run(command.Context(), command.InOrStdin(), command.OutOrStdout())
		},
	}
	options.addFormat(command)
	options.addOwnFlags(command)
	return command
}

// addOwnFlags adds the flags of doctor.
func (d *doctorOptions) addOwnFlags(command *cobra.Command) {
	flags := command.Flags()
	addAllNamespaces(flags, &d.isAll)
	flags.BoolVar(&d.pre, "pre", false, "check whether the cluster is ready for an installation")
	flags.BoolVar(&d.wait, "wait", false, "check again until the exit code is 0")
	flags.BoolVarP(&d.quiet, "quiet", "q", false, "leave out checks that have passed")
	flags.StringSliceVarP(&d.filenames, "filename", "f", nil,
		"check manifests instead of a cluster: a `file`, a folder, or - for the input")
	flags.StringVar(&d.failOn, "fail-on", string(doctor.Error),
		"the `severity` at which the exit code is 3: error, warning or never")
	flags.StringSliceVar(&d.categories, "category", nil, "check only these `categories`: "+
		strings.Join(categoryFlags(), ", "))
	flags.StringSliceVar(&d.suppressed, "suppress", nil, "leave out these findings: `CODE` or CODE=OBJECT")
	addTimeout(flags, &d.timeout, time.Minute, "maximum `time` for the command")
	for name, values := range map[string][]string{
		"fail-on":  {string(doctor.Error), string(doctor.Warning), "never"},
		"category": categoryFlags(), "suppress": codeNames(),
	} {
		// The error is for an unknown flag.
		_ = command.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
}

// categoryFlags returns the valid values of --category.
func categoryFlags() []string {
	var names []string
	for _, category := range doctor.Categories() {
		names = append(names, category.Flag())
	}
	return names
}

// filter parses --category and --suppress.
func (d *doctorOptions) filter() (doctor.Filter, error) {
	filter := doctor.Filter{Suppressed: d.suppressed}
	for _, name := range d.categories {
		at := slices.Index(categoryFlags(), strings.ToLower(name))
		if at < 0 {
			return filter, fmt.Errorf("--category=%s: %w: use %s", name, errCategory, strings.Join(categoryFlags(), ", "))
		}
		filter.Categories = append(filter.Categories, doctor.Categories()[at])
	}
	for _, entry := range d.suppressed {
		code, _, _ := strings.Cut(entry, "=")
		if _, err := doctor.Explain(code); err != nil {
			return filter, fmt.Errorf("--suppress=%s: %w", entry, err)
		}
	}
	return filter, nil
}

// run checks the installation, the cluster or the files, and prints the result.
func (d *doctorOptions) run(ctx context.Context, in io.Reader, out io.Writer) error {
	filter, err := d.filter()
	if err != nil {
		return usageError(err)
	}
	if !slices.Contains([]string{string(doctor.Error), string(doctor.Warning), "never"}, d.failOn) {
		return usageError(fmt.Errorf("--fail-on=%s: %w", d.failOn, errFailOn))
	}
	isOffline := len(d.filenames) > 0
	if isOffline && (d.pre || d.wait) || d.pre && d.wait {
		return usageError(errExclusive)
	}
	if d.wait && d.failOn == "never" {
		return usageError(errWaitNever)
	}
	ctx, cancel := withTimeout(ctx, d.timeout)
	defer cancel()
	var report doctor.Report
	if isOffline {
		report, err = d.offline(in, filter)
	} else {
		report, err = d.online(ctx, filter)
	}
	if err != nil {
		return err
	}
	if err := d.print(out, &report); err != nil {
		return err
	}
	if report.Fails(d.failOn) {
		return errFinding
	}
	return nil
}

// print prints a report.
func (d *doctorOptions) print(out io.Writer, report *doctor.Report) error {
	if d.format.IsObject() {
		return output.Print(out, d.format, "DoctorReport", report)
	}
	return doctor.Print(out, d.format, d.show.style(out), d.quiet, report)
}

// offline checks manifests.
func (d *doctorOptions) offline(in io.Reader, filter doctor.Filter) (doctor.Report, error) {
	all, err := readFiles(in, d.filenames)
	if err != nil {
		return doctor.Report{}, err
	}
	namespace, err := d.conn.scope(false)
	if err != nil {
		namespace = "default" // Files need no kubeconfig.
	}
	cluster, err := files.Read(all, namespace)
	if err != nil {
		return doctor.Report{}, err
	}
	return doctor.NewOfflineReport(cluster, filter), nil
}

// online checks the cluster: with --wait, until no finding is as severe as --fail-on, or the time is over.
func (d *doctorOptions) online(ctx context.Context, filter doctor.Filter) (doctor.Report, error) {
	client, err := d.conn.client()
	if err != nil {
		return doctor.Report{}, err
	}
	namespace, err := d.conn.namedScope(d.isAll)
	if err != nil {
		return doctor.Report{}, err
	}
	var last *doctor.Report
	for {
		report, err := d.examine(ctx, client, namespace, filter)
		if ctx.Err() != nil && last != nil {
			return *last, nil
		}
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return report, fmt.Errorf("reading the cluster: not finished within %v: %w: increase --timeout", d.timeout,
				ctx.Err())
		}
		if err != nil && (!d.wait || ctx.Err() != nil || !kube.IsTransient(err)) {
			return report, err
		}
		if err == nil {
			last = &report
		}
		if err == nil && (!d.wait || !report.Fails(d.failOn)) {
			return report, nil
		}
		kube.Sleep(ctx, waitInterval)
	}
}

// examine reads and checks the cluster once.
func (d *doctorOptions) examine(ctx context.Context, client *kube.Client, namespace string, filter doctor.Filter,
) (doctor.Report, error) {
	if !d.pre {
		cluster, err := readAll(ctx, gather.New(client, namespace))
		if err != nil {
			return doctor.Report{}, err
		}
		return doctor.NewReport(cluster, namespace, filter), nil
	}
	reader := gather.New(client, namespace)
	cluster, err := reader.All(ctx)
	if err != nil {
		return doctor.Report{}, err
	}
	reader.Prepare(ctx, cluster, doctor.InstallPermissions(cluster))
	return doctor.NewPreReport(cluster, filter), ctx.Err()
}

// readAll reads everything that doctor needs, including permissions.
func readAll(ctx context.Context, reader *gather.Reader) (*facts.Facts, error) {
	cluster, err := reader.All(ctx)
	if err != nil {
		return nil, err
	}
	reader.ReviewPermissions(ctx, cluster, doctor.RequiredPermissions(cluster))
	return cluster, ctx.Err()
}
