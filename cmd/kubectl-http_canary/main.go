// Command kubectl-http_canary is a kubectl plugin: "kubectl http-canary" installs, checks and uninstalls this project's
// routers and data plane, shows the traffic split of a Rollout, and removes leftovers.
//
// Called by the name kubectl_complete-http_canary, it prints shell completions, as kubectl expects of plugins.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// completer is the name under which kubectl calls its plugin http-canary for completions.
const completer = "kubectl_complete-http_canary"

// version is the release version, set at build time by -ldflags "-X main.version=v1.2.3". Other builds read it from the
// build information.
var version string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // A second signal terminates the process immediately.
	command := newCommand()
	if filepath.Base(os.Args[0]) == completer {
		command.SetArgs(append([]string{"__complete"}, os.Args[1:]...))
	}
	err := command.ExecuteContext(ctx)
	if message := errorLine(err); message != "" {
		fmt.Fprintln(os.Stderr, message)
	}
	os.Exit(exitCode(err))
}
