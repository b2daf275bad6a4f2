// Command argo-cd is the application controller or the repo server of Argo CD, or a server of the protocol of Redis for
// both, depending on its first argument. The other arguments are those of Argo CD.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alicebob/miniredis/v2"
	controller "github.com/argoproj/argo-cd/v3/cmd/argocd-application-controller/commands"
	reposerver "github.com/argoproj/argo-cd/v3/cmd/argocd-repo-server/commands"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
)

var errUsage = errors.New("usage: argo-cd application-controller|repo-server FLAGS, or argo-cd redis ADDRESS")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run runs the program that the first argument names.
func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	switch program, flags := args[0], args[1:]; program {
	case "application-controller":
		command := controller.NewCommand()
		command.SetArgs(flags)
		return command.ExecuteContext(ctx)
	case "repo-server":
		command := reposerver.NewCommand()
		command.SetArgs(flags)
		return command.ExecuteContext(ctx)
	case "redis":
		if len(flags) != 1 {
			return errUsage
		}
		return redis(ctx, flags[0])
	default:
		return errUsage
	}
}

// redis serves the protocol of Redis from memory until ctx ends.
func redis(ctx context.Context, address string) error {
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr(address); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	<-ctx.Done()
	server.Close()
	return nil
}
