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
func newSplit(way *way) *cobra.Command {
	var form output
	var follows, counts bool
	command := &cobra.Command{
		Use:   "split ROLLOUT",
		Short: "Show or watch the traffic split of a Rollout, one line per routing object",
		Long: `split prints one line for each routing object of a Rollout: the weights of its Services (stable first) as desired by the
controller and as written to the object, whether the data plane has applied them, how many Ready proxies have acknowledged
them, and the ready endpoints of the Services. With --watch it prints a line with the time at each change until interrupted.

With --sent it also prints how many requests each Ready proxy of ` + facts.HTTPRouter + ` has sent to each Service, from the
counters of its Envoy: since the start of Envoy and, with --watch, since the previous line, every 2 seconds while there is
traffic. This requires permission to get pods/proxy in the namespace of the proxies.`,
		Example: `  kubectl http-canary split shop
  kubectl http-canary split shop --watch
  kubectl http-canary split shop --watch --sent`,
		Args:              oneRollout,
		ValidArgsFunction: way.completeRollout,
		RunE: func(command *cobra.Command, args []string) error {
			if follows && form == outputYAML {
				return usage(fmt.Errorf("--watch does not support --output=%s: use --output=%s", outputYAML, outputJSON))
			}
			reader, name, err := way.rollout(args[0])
			if err != nil {
				return err
			}
			out := command.OutOrStdout()
			switch changes := newChanges(out, form); {
			case !follows:
				return splitOnce(command.Context(), out, form, reader, name, counts)
			case counts:
				return followCounted(command.Context(), reader, name, changes.tell)
			default:
				return reader.Follow(command.Context(), name, func(cluster *facts.Facts) error {
					return changes.tell(split.Of(cluster, &cluster.Rollouts[0]))
				})
			}
		},
	}
	form.addFlag(command)
	command.Flags().BoolVarP(&follows, "watch", "w", false, "print a line at each change until interrupted")
	command.Flags().BoolVar(&counts, "sent", false, "show the number of requests that each proxy has sent to each Service")
	return command
}

// printSplit prints the current traffic split.
func splitOnce(ctx context.Context, out io.Writer, form output, reader *gather.Reader, name types.NamespacedName, counts bool) error {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	cluster, err := reader.One(ctx, name)
	if err != nil {
		return err
	}
	told := split.Of(cluster, &cluster.Rollouts[0])
	if counts {
		if told, err = counted(ctx, reader, cluster); err != nil {
			return err
		}
	}
	if form == outputJSON || form == outputYAML {
		return printObject(out, form, told)
	}
	return printLines(out, told)
}

// changePrinter prints the changes of the traffic split of one Rollout.
type changes struct {
	out   io.Writer
	form  output
	now   func() time.Time
	known map[string]string    // the last line of each object
	sent  map[string][]int64   // the last request counts of each proxy and object
	at    map[string]time.Time // the time of the line with these counts
	last  split.Sharing
	began bool
}

// newChangePrinter returns a changePrinter that writes to out.
func newChanges(out io.Writer, form output) *changes {
	return &changes{out: out, form: form, now: time.Now, known: map[string]string{}, sent: map[string][]int64{}, at: map[string]time.Time{}}
}

// print prints the lines of report that differ from the previous call.
func (c *changes) tell(told split.Sharing) error {
	if c.form == outputJSON {
		if c.began && reflect.DeepEqual(told, c.last) {
			return nil
		}
		c.last, c.began = told, true
		return printObject(c.out, c.form, told)
	}
	var text strings.Builder
	if !c.began {
		c.began = true
		text.WriteString("TIME      " + heading + "\n")
	}
	now := c.now()
	all := lines(told)
	for i, object := range told.Objects {
		isNew := c.known[object.Name] != all[i]
		if isNew {
			c.known[object.Name] = all[i]
			fmt.Fprintf(&text, "%s  %s\n", now.Format(time.TimeOnly), all[i])
		}
		for _, sent := range object.Sent {
			if key := object.Name + " " + sent.Proxy; isNew || now.Sub(c.at[key]) >= countEvery/2 {
				text.WriteString(c.newly(key, sent, now))
			}
		}
	}
	_, err := io.WriteString(c.out, text.String())
	return err
}

// countsChange returns the line for the request counts of one proxy. It is empty if they have not changed.
func (c *changes) newly(key string, sent split.Sent, now time.Time) string {
	before, is := c.sent[key]
	line := sentLine(sent, before, now.Sub(c.at[key]))
	if sent.Problem != "" && c.known[key] == line || sent.Problem == "" && is && slices.Equal(before, sent.Requests) {
		return ""
	}
	c.known[key], c.at[key] = line, now
	if sent.Problem == "" {
		c.sent[key] = sent.Requests
	}
	return fmt.Sprintf("%s  %s\n", now.Format(time.TimeOnly), line)
}

// heading is the header line of splitLines.
const heading = "PHASE        DESIRED   WRITTEN   APPLIED  PROXIES  ENDPOINTS  OBJECT"

// splitLines formats one line for each object.
func lines(told split.Sharing) []string {
	var asked, endpoints []string
	for _, service := range told.Services {
		asked = append(asked, strconv.FormatInt(service.Asked, 10))
		endpoints = append(endpoints, strconv.Itoa(service.Endpoints))
	}
	var all []string
	for _, object := range told.Objects {
		weights, proxies := "?", "-"
		if object.Written != nil {
			var each []string
			for i := range object.Written {
				each = append(each, written(object, i))
			}
			weights = strings.Join(each, "/")
		}
		if object.Proxies != nil {
			proxies = fmt.Sprintf("%d/%d", object.Proxies.Acked, object.Proxies.Ready)
		}
		line := fmt.Sprintf("%-12s %-9s %-9s %-8s %-8s %-10s %s", told.Phase, strings.Join(asked, "/"), weights, object.Taken, proxies,
			strings.Join(endpoints, "/"), object.Name)
		if object.Problem != "" {
			line += ": " + object.Problem
		}
		all = append(all, line)
	}
	return all
}

// printLines prints the header and the lines of a report.
func printLines(out io.Writer, told split.Sharing) error {
	var text strings.Builder
	text.WriteString(heading + "\n")
	for i, line := range lines(told) {
		text.WriteString(line + "\n")
		for _, sent := range told.Objects[i].Sent {
			text.WriteString(sentLine(sent, nil, 0) + "\n")
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}
