package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/localcluster/node"
)

// firstFile is the first inherited file: the progress pipe, then the listeners.
const firstFile = 3

// insideCommand returns the internal commands, with which this program starts itself: as root on the host (start,
// supervise, remove), and in the cluster's namespaces (init, run).
func insideCommand() *cobra.Command {
	inside := &cobra.Command{Use: "inside", Hidden: true}
	inside.AddCommand(startCommand(), superviseCommand(), removeCommand(), &cobra.Command{
		Use:  "init CONFIG LISTENERS",
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			config, listeners, err := insideArguments(args)
			if err != nil {
				return err
			}
			code, err := node.Init(config, append([]string{"/proc/self/exe", "inside", "run"}, args...), 1+listeners)
			if err != nil {
				node.NewReporter(os.NewFile(firstFile, "progress"), time.Now).Report(node.Failed, err.Error())
				return err
			}
			os.Exit(code)
			return nil
		},
	}, &cobra.Command{
		Use:  "run CONFIG LISTENERS",
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			config, count, err := insideArguments(args)
			if err != nil {
				return err
			}
			report := node.NewReporter(os.NewFile(firstFile, "progress"), time.Now)
			listeners, err := inheritedListeners(count)
			if err == nil {
				err = node.Run(c.Context(), config, listeners, report)
			}
			if err != nil && c.Context().Err() == nil {
				report.Report(node.Failed, err.Error())
			}
			return err
		},
	})
	return inside
}

func insideArguments(args []string) (node.Config, int, error) {
	config, err := node.ReadConfig(args[0])
	if err != nil {
		return node.Config{}, 0, err
	}
	count, err := strconv.Atoi(args[1])
	if err != nil || count != len(config.Forwards) {
		return node.Config{}, 0, fmt.Errorf("%q listeners for %d forwards", args[1], len(config.Forwards))
	}
	return config, count, nil
}

func inheritedListeners(count int) ([]net.Listener, error) {
	out := make([]net.Listener, 0, count)
	for i := range count {
		file := os.NewFile(uintptr(firstFile+1+i), "listener")
		listener, err := net.FileListener(file)
		if err != nil {
			return nil, fmt.Errorf("inherit a listener: %w", err)
		}
		_ = file.Close()
		out = append(out, listener)
	}
	return out, nil
}
