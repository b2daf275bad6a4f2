package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/bundle"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/components"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/doctor"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts/gather"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/output"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/split"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// errMaxSize reports a flag --max-size that leaves no room.
var errMaxSize = errors.New("--max-size is")

// bundleOptions are the flags of support-bundle.
type bundleOptions struct {
	conn                    *connection
	isAll, isDryRun, noLogs bool
	file                    string
	megabytes               int
	timeout                 time.Duration
}

// newSupportBundle returns the command that collects the state of an installation.
func newSupportBundle(conn *connection) *cobra.Command {
	options := &bundleOptions{conn: conn}
	command := &cobra.Command{
		Use:   "support-bundle",
		Short: "Write an archive with the objects, logs and metrics of an installation, without secrets",
		Long: `support-bundle writes a tar.gz file for a bug report: the Rollouts, HTTPScaledObjects, routes, ScaledObjects,
Services, Pods and Events of the applications and components, the controller's list of plugins, the logs and metrics of
the components, and the output of doctor, list and version.

It reads no Secrets. Values of environment variables, annotations, arguments and log lines that look like credentials,
such as tokens, passwords and private keys, are replaced by REDACTED. Names, hosts and images stay: read the file before
you publish it. It changes nothing in the cluster.`,
		Example: `  kubectl http-canary support-bundle --all-namespaces
  kubectl http-canary support-bundle --dry-run
  kubectl http-canary support-bundle --namespace shop --file shop.tar.gz`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			return options.run(command.Context(), command.OutOrStdout())
		},
	}
	flags := command.Flags()
	addAllNamespaces(flags, &options.isAll)
	flags.BoolVar(&options.isDryRun, "dry-run", false, "list the files of the archive, and write none")
	flags.BoolVar(&options.noLogs, "no-logs", false, "leave out logs and metrics")
	flags.StringVarP(&options.file, "file", "f", "", "the `file` (default http-canary-support-<time>.tar.gz)")
	flags.IntVar(&options.megabytes, "max-size", 50, "maximum `size` in MiB, before compression")
	addTimeout(flags, &options.timeout, 3*time.Minute, "maximum `time` for the command")
	return command
}

// run collects the state and writes the archive.
func (b *bundleOptions) run(ctx context.Context, out io.Writer) error {
	if b.megabytes < 1 {
		return usageError(fmt.Errorf("%w %d: at least 1", errMaxSize, b.megabytes))
	}
	client, err := b.conn.client()
	if err != nil {
		return err
	}
	namespace, err := b.conn.namedScope(b.isAll)
	if err != nil {
		return err
	}
	ctx, cancel := withTimeout(ctx, b.timeout)
	defer cancel()
	cluster, err := readAll(ctx, gather.New(client, namespace))
	if err != nil {
		return err
	}
	reports, err := bundleReports(cluster, namespace)
	if err != nil {
		return err
	}
	collector := bundle.New(client, bundle.Options{
		Namespace: namespace, Limit: b.megabytes << 20, HasLogs: !b.noLogs, Now: cluster.Now, Reports: reports,
	})
	if b.isDryRun {
		return printEntries(out, collector.Plan(ctx, cluster), true)
	}
	return b.write(ctx, out, collector, cluster)
}

// write writes the archive, and prints its files. An incomplete archive is removed.
func (b *bundleOptions) write(ctx context.Context, out io.Writer, collector *bundle.Collector, cluster *facts.Facts,
) error {
	name := b.file
	if name == "" {
		name = "http-canary-support-" + cluster.Now.UTC().Format("20060102-150405") + ".tar.gz"
	}
	file, err := os.OpenFile(filepath.Clean(name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	entries, err := collector.Write(ctx, file, cluster)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		_ = os.Remove(name) // The first error matters.
		return fmt.Errorf("support bundle: %w", err)
	}
	if err := printEntries(out, entries, false); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "\n%s written. It contains no Secrets; names, hosts and images are not removed.\n", name)
	return err
}

// printEntries prints the files of a bundle.
func printEntries(out io.Writer, entries []bundle.Entry, isDryRun bool) error {
	table := output.Rows{Columns: output.Columns("FILE", "SIZE", "NOTE")}
	for _, entry := range entries {
		size := strconv.Itoa(entry.Size)
		if isDryRun {
			size = ""
		}
		table.Add(entry.Name, size, entry.Note)
	}
	return table.Print(out, output.Table, true)
}

// bundleReports returns the outputs of doctor, list and version.
func bundleReports(cluster *facts.Facts, namespace string) (map[string][]byte, error) {
	report := doctor.NewReport(cluster, namespace, doctor.Filter{})
	reports := map[string][]byte{}
	var text bytes.Buffer
	if err := doctor.Print(&text, output.Wide, output.Style{}, false, &report); err != nil {
		return nil, err
	}
	reports["doctor.txt"] = bytes.Clone(text.Bytes())
	for _, object := range []struct {
		name, kind string
		value      any
	}{
		{"doctor.json", "DoctorReport", report},
		{"canaries.json", "CanaryList", canaryList{Items: split.List(cluster)}},
		{"version.json", "Version", versions{
			Client: clientVersion{Version: server.Version(version)}, Components: components.Of(cluster),
		}},
	} {
		text.Reset()
		if err := output.Print(&text, output.JSON, object.kind, object.value); err != nil {
			return nil, err
		}
		reports[object.name] = bytes.Clone(text.Bytes())
	}
	return reports, nil
}
