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
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts/gather"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/split"
)

// newSplit returns the command that shows or watches the traffic split of one Rollout.
func newSplit(conn *connection) *cobra.Command {
	var format outputFormat
	var watch, withCounts bool
	command := &cobra.Command{
		Use:   "split ROLLOUT",
		Short: "Show or watch the traffic split of a Rollout, one line per routing object",
		Long: `split prints one line for each routing object of a Rollout: the weights of its Services (stable
first) as desired by the controller and as written to the object, whether the data plane has applied them, how
many Ready proxies have acknowledged them, and the ready endpoints of the Services. With --watch it prints a
line with the time at each change until interrupted.

With --sent it also prints how many requests each Ready proxy of ` + facts.HTTPRouter + ` has sent to each Service,
from the counters of its Envoy: since the start of Envoy and, with --watch, since the previous line, every 2
seconds while there is traffic. This requires permission to get pods/proxy in the namespace of the proxies.`,
		Example: `  kubectl http-canary split shop
  kubectl http-canary split shop --watch
  kubectl http-canary split shop --watch --sent`,
		Args:              oneRollout,
		ValidArgsFunction: conn.completeRollout,
		RunE: func(command *cobra.Command, args []string) error {
			if watch && format == formatYAML {
				return usageError(fmt.Errorf("--watch does not support --output=%s: use --output=%s", formatYAML,
					formatJSON))
			}
			reader, name, err := conn.rolloutReader(args[0])
			if err != nil {
				return err
			}
			out := command.OutOrStdout()
			switch changes := newChangePrinter(out, format); {
			case !watch:
				return printSplit(command.Context(), out, format, reader, name, withCounts)
			case withCounts:
				return watchWithCounts(command.Context(), reader, name, changes.print)
			default:
				return reader.Watch(command.Context(), name, func(cluster *facts.Facts) error {
					return changes.print(split.Of(cluster, &cluster.Rollouts[0]))
				})
			}
		},
	}
	format.addFlag(command)
	command.Flags().BoolVarP(&watch, "watch", "w", false, "print a line at each change until interrupted")
	command.Flags().BoolVar(&withCounts, "sent", false,
		"show the number of requests that each proxy has sent to each Service")
	return command
}

// printSplit prints the current traffic split.
func printSplit(ctx context.Context, out io.Writer, format outputFormat, reader *gather.Reader,
	name types.NamespacedName, withCounts bool,
) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	cluster, err := reader.Rollout(ctx, name)
	if err != nil {
		return err
	}
	report := split.Of(cluster, &cluster.Rollouts[0])
	if withCounts {
		if report, err = reportWithCounts(ctx, reader, cluster); err != nil {
			return err
		}
	}
	if format == formatJSON || format == formatYAML {
		return printObject(out, format, report)
	}
	return printLines(out, report)
}

// changePrinter prints the changes of the traffic split of one Rollout.
type changePrinter struct {
	out     io.Writer
	format  outputFormat
	now     func() time.Time
	lines   map[string]string    // the last line of each object
	counts  map[string][]int64   // the last request counts of each proxy and object
	times   map[string]time.Time // the time of the line with these counts
	last    split.Report
	started bool
}

// newChangePrinter returns a changePrinter that writes to out.
func newChangePrinter(out io.Writer, format outputFormat) *changePrinter {
	return &changePrinter{
		out: out, format: format, now: time.Now, lines: map[string]string{},
		counts: map[string][]int64{}, times: map[string]time.Time{},
	}
}

// print prints the lines of report that differ from the previous call.
func (c *changePrinter) print(report split.Report) error {
	if c.format == formatJSON {
		if c.started && reflect.DeepEqual(report, c.last) {
			return nil
		}
		c.last, c.started = report, true
		return printObject(c.out, c.format, report)
	}
	var text strings.Builder
	if !c.started {
		c.started = true
		text.WriteString("TIME      " + heading + "\n")
	}
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
	_, err := io.WriteString(c.out, text.String())
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
				texts = append(texts, writtenWeight(object, i))
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

// printLines prints the header and the lines of a report.
func printLines(out io.Writer, report split.Report) error {
	var text strings.Builder
	text.WriteString(heading + "\n")
	for i, line := range splitLines(report) {
		text.WriteString(line + "\n")
		for _, counts := range report.Objects[i].Sent {
			text.WriteString(countsLine(counts, nil, 0) + "\n")
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}
