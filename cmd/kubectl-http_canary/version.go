package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/components"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts/gather"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/output"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// versionOptions are the flags of version.
type versionOptions struct {
	outputFlags

	conn     *connection
	isClient bool
	timeout  time.Duration
}

// versions is the JSON output of version.
type versions struct {
	Client clientVersion `json:"client"`
	// Components is nil with --client.
	Components []components.Component `json:"components,omitempty"`
}

// clientVersion is the version of this command.
type clientVersion struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// newVersion returns the command that prints versions.
func newVersion(conn *connection) *cobra.Command {
	options := &versionOptions{conn: conn}
	command := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of this command and of the installed components",
		Long: `version prints the version of this command, and of the components of the cluster: interceptor, scaler, agent,
proxies, the controller with its plugins as registered, and KEDA. The version of a component is the tag of its image, or
its label app.kubernetes.io/version; that of a plugin is in its URL or in the image of the init container.`,
		Example: `  kubectl http-canary version
  kubectl http-canary version --client
  kubectl http-canary version -o json`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			return options.run(command.Context(), command.OutOrStdout())
		},
	}
	options.addFlags(command)
	command.Flags().BoolVar(&options.isClient, "client", false, "print only the version of this command")
	addTimeout(command.Flags(), &options.timeout, 30*time.Second, "maximum `time` for the command")
	return command
}

// run prints the versions.
func (v *versionOptions) run(ctx context.Context, out io.Writer) error {
	all := versions{Client: clientVersion{
		Version: server.Version(version), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}}
	if !v.isClient {
		client, err := v.conn.client()
		if err != nil {
			return err
		}
		ctx, cancel := withTimeout(ctx, v.timeout)
		defer cancel()
		cluster, err := gather.New(client, "").Components(ctx)
		if err != nil {
			return fmt.Errorf("%w; --client prints only the version of this command", err)
		}
		all.Components = components.Of(cluster)
	}
	if v.format.IsObject() {
		return output.Print(out, v.format, "Version", all)
	}
	if v.format != output.Name {
		if _, err := fmt.Fprintf(out, "Client: %s (%s, %s)\n", all.Client.Version, all.Client.Go,
			all.Client.Platform); err != nil {
			return err
		}
	}
	switch {
	case v.isClient:
		return nil
	case len(all.Components) == 0:
		_, err := fmt.Fprintln(out, "No component is installed.")
		return err
	}
	return components.Print(out, v.format, !v.noHeaders, all.Components)
}
