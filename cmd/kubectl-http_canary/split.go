package main

import (
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/internal/installation"
	"github.com/kedify/argo-rollouts-plugin/internal/sharing"
)

// newSplit returns the command that shows, and follows, the split of one Rollout.
func newSplit(way *way) *cobra.Command {
	var form output
	var follows bool
	command := &cobra.Command{
		Use:   "split ROLLOUT",
		Short: "Show or follow the split of a Rollout's requests, a line for each object",
		Long: `split prints a line for each routing object of a Rollout: the weights of its Services, stable first, as the controller
asked for them and as they are written, whether they are taken, by how many of the Ready proxies, and the ready endpoints
of the Services. With --watch it prints another line at each change, with the time, until it is interrupted.`,
		Example: `  kubectl http-canary split shop
  kubectl http-canary split shop --watch`,
		Args:              oneRollout,
		ValidArgsFunction: way.completeRollout,
		RunE: func(command *cobra.Command, args []string) error {
			out := command.OutOrStdout()
			if !follows {
				told, err := shared(command.Context(), way, args[0])
				if err != nil {
					return err
				}
				if form == outputJSON || form == outputYAML {
					return printObject(out, form, told)
				}
				return printLines(out, lines(told))
			}
			if form == outputYAML {
				return usage(fmt.Errorf("%s cannot be followed: write --output=%s", outputYAML, outputJSON))
			}
			reader, name, err := way.rollout(args[0])
			if err != nil {
				return err
			}
			return reader.Follow(command.Context(), name, changes(out, form))
		},
	}
	form.addFlag(command)
	command.Flags().BoolVarP(&follows, "watch", "w", false, "print a line at each change, until interrupted")
	return command
}

// changes returns a function that prints what is new in facts about one Rollout.
func changes(out io.Writer, form output) func(*installation.Facts) error {
	known := map[string]string{}
	var last sharing.Sharing
	isFirst := true
	return func(facts *installation.Facts) error {
		told := sharing.Of(facts, &facts.Rollouts[0])
		if form == outputJSON {
			if !isFirst && reflect.DeepEqual(told, last) {
				return nil
			}
			last, isFirst = told, false
			return printObject(out, form, told)
		}
		if isFirst {
			isFirst = false
			if _, err := fmt.Fprintln(out, "TIME      "+heading); err != nil {
				return err
			}
		}
		all := lines(told)
		for i, object := range told.Objects {
			if known[object.Name] == all[i] {
				continue
			}
			known[object.Name] = all[i]
			if _, err := fmt.Fprintf(out, "%s  %s\n", time.Now().Format(time.TimeOnly), all[i]); err != nil {
				return err
			}
		}
		return nil
	}
}

// heading is above lines.
const heading = "PHASE        ASKED     WRITTEN   TAKEN    PROXIES  ENDPOINTS  OBJECT"

// lines are one for each object.
func lines(told sharing.Sharing) []string {
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

// printLines prints lines below their heading.
func printLines(out io.Writer, all []string) error {
	_, err := io.WriteString(out, heading+"\n"+strings.Join(append(all, ""), "\n"))
	return err
}
