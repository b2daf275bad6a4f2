// Command localcluster runs a real single-node Kubernetes, with Argo Rollouts, this project's plugin and its
// interceptor, as plain processes. It needs no Docker, downloads only from package registries, installs nothing on the
// host and leaves nothing behind.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/localcluster/build"
)

// version is set by the linker.
var version = "dev"

func main() {
	// The supervisor's death signal follows the thread that starts the cluster.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := rootCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "localcluster: "+err.Error())
		os.Exit(1)
	}
}

func rootCommand() *cobra.Command {
	l := &location{}
	root := &cobra.Command{
		Use:           "localcluster",
		Short:         "A real single-node Kubernetes for this project, without Docker",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&l.repo, "repo", cmp.Or(os.Getenv("LOCALCLUSTER_REPO"), "."),
		"root of this project's repository")
	root.PersistentFlags().StringVar(&l.cluster, "cluster", os.Getenv("LOCALCLUSTER_NAME"),
		"`name` of the cluster, if the repository has several at the same time (default: the one without a name)")
	root.PersistentFlags().StringVar(&l.cache, "cache", os.Getenv("LOCALCLUSTER_CACHE"),
		"folder for built programs and running clusters (default: kedify-localcluster in the user's cache folder)")
	root.PersistentFlags().StringVar(&l.kubernetes, "kubernetes", os.Getenv("LOCALCLUSTER_KUBERNETES"),
		"`version` of Kubernetes, such as 1.37.2 (default: "+build.KubernetesVersion+")")
	root.AddCommand(upCommand(l), downCommand(l), statusCommand(l), buildCommand(l), pathCommand(l), exportCommand(l),
		imagesCommand(l), logsCommand(l), insideCommand())
	return root
}
