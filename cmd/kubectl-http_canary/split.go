package main

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/output"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/split"
)

// readTimeout is the default time limit of commands that read one Rollout.
const readTimeout = 30 * time.Second

// newSplit returns the former command for the traffic split of one Rollout, which is a part of status now.
func newSplit(conn *connection, show *display) *cobra.Command {
	options := &statusOptions{conn: conn, show: show}
	command := &cobra.Command{
		Use:               "split ROLLOUT",
		Short:             "Former name of status --watch and status --sent",
		Deprecated:        "use status, status --watch or status --sent",
		Args:              oneRollout,
		ValidArgsFunction: conn.completeRollout,
		RunE: func(command *cobra.Command, args []string) error {
			if options.watch || options.format.IsObject() {
				return options.run(command.Context(), command.OutOrStdout(), args[0])
			}
			return options.printLines(command.Context(), command.OutOrStdout(), args[0])
		},
	}
	options.addFlags(command)
	command.Flags().BoolVarP(&options.watch, "watch", "w", false, "print a line at each change until interrupted")
	command.Flags().BoolVar(&options.withCount, "sent", false,
		"show the number of requests that each proxy has sent to each Service")
	addTimeout(command.Flags(), &options.timeout, readTimeout, statusTimeoutUsage)
	return command
}

// printLines prints the traffic split as lines, as split did.
func (s *statusOptions) printLines(ctx context.Context, out io.Writer, argument string) error {
	ctx, cancel := withTimeout(ctx, s.timeout)
	defer cancel()
	reader, name, unreferenced, err := s.conn.rolloutReader(ctx, argument)
	if err != nil {
		return err
	}
	if unreferenced != nil {
		return fmt.Errorf("HTTPScaledObject %s %w", name, errNoRollout)
	}
	cluster, err := reader.Rollout(ctx, name)
	if err != nil {
		return err
	}
	report, err := s.report(ctx, reader, cluster)
	if err != nil {
		return err
	}
	return printLines(out, !s.noHeaders, report)
}

// changePrinter prints the changes of the traffic split of one Rollout.
type changePrinter struct {
	outputFlags

	out     io.Writer
	now     func() time.Time
	lines   map[string]string    // the last line of each object
	counts  map[string][]int64   // the last request counts of each proxy and object
	times   map[string]time.Time // the time of the line with these counts
	last    split.Report
	started bool // a line was printed
}

// newChangePrinter returns a changePrinter that writes to out.
func newChangePrinter(out io.Writer, flags outputFlags) *changePrinter {
	return &changePrinter{
		outputFlags: flags, out: out, now: time.Now, lines: map[string]string{},
		counts: map[string][]int64{}, times: map[string]time.Time{},
	}
}

// print prints the lines of report that differ from the previous call.
func (c *changePrinter) print(report split.Report) error {
	if c.format == output.JSON {
		if c.started && reflect.DeepEqual(report, c.last) {
			return nil
		}
		c.last, c.started = report, true
		return output.PrintLine(c.out, "CanaryStatus", report)
	}
	var text strings.Builder
	now := c.now()
	all := splitLines(report)
	for i, object := range report.Objects {
		isNew := c.lines[object.Name] != all[i]
		if isNew {
			c.lines[object.Name] = all[i]
			fmt.Fprintf(&text, "%s  %s\n", now.Format(time.TimeOnly), all[i])
		}
		for _, counts := range object.Sent {
			if key := object.Name + " " + counts.Proxy; isNew || now.Sub(c.times[key]) >= countInterval/2 {
				text.WriteString(c.countsChange(key, counts, now))
			}
		}
	}
	if text.Len() == 0 {
		return nil
	}
	header := ""
	if !c.started && !c.noHeaders {
		header = "TIME      " + heading + "\n"
	}
	c.started = true
	_, err := io.WriteString(c.out, header+text.String())
	return err
}

// countsChange returns the line for the request counts of one proxy. It is empty if they have not changed.
func (c *changePrinter) countsChange(key string, counts split.ProxyRequests, now time.Time) string {
	before, ok := c.counts[key]
	line := countsLine(counts, before, now.Sub(c.times[key]))
	if counts.Problem != "" && c.lines[key] == line || counts.Problem == "" && ok &&
		slices.Equal(before, counts.Requests) {
		return ""
	}
	c.lines[key], c.times[key] = line, now
	if counts.Problem == "" {
		c.counts[key] = counts.Requests
	}
	return fmt.Sprintf("%s  %s\n", now.Format(time.TimeOnly), line)
}

// heading is the header line of splitLines.
const heading = "PHASE        DESIRED   WRITTEN   APPLIED  PROXIES  ENDPOINTS  OBJECT"

// splitLines formats one line for each object.
func splitLines(report split.Report) []string {
	var desired, endpoints []string
	for _, service := range report.Services {
		desired = append(desired, strconv.FormatInt(service.Desired, 10))
		endpoints = append(endpoints, strconv.Itoa(service.Endpoints))
	}
	var all []string
	for _, object := range report.Objects {
		weights, proxies := "?", "-"
		if object.Written != nil {
			var texts []string
			for i := range object.Written {
				texts = append(texts, split.Weight(object, i))
			}
			weights = strings.Join(texts, "/")
		}
		if object.Proxies != nil {
			proxies = fmt.Sprintf("%d/%d", object.Proxies.Acked, object.Proxies.Ready)
		}
		line := fmt.Sprintf("%-12s %-9s %-9s %-8s %-8s %-10s %s", report.Phase, strings.Join(desired, "/"), weights,
			object.Applied, proxies,
			strings.Join(endpoints, "/"), object.Name)
		if object.Problem != "" {
			line += ": " + object.Problem
		}
		all = append(all, line)
	}
	return all
}

// printLines prints the lines of a report.
func printLines(out io.Writer, hasHeaders bool, report split.Report) error {
	var text strings.Builder
	if hasHeaders {
		text.WriteString(heading + "\n")
	}
	for i, line := range splitLines(report) {
		text.WriteString(line + "\n")
		for _, counts := range report.Objects[i].Sent {
			text.WriteString(countsLine(counts, nil, 0) + "\n")
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}
