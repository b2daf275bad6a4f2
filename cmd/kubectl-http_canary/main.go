// Command kubectl-http_canary is a plugin of kubectl: "kubectl http-canary" examines an installation of this project's
// routers and what carries out their weights, shows how a Rollout's requests are shared, and finds what was left over.
//
// Called by the name kubectl_complete-http_canary, as kubectl does for completion, it completes.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// completer is the name by which kubectl asks its plugin http-canary for completions.
const completer = "kubectl_complete-http_canary"

// version is the version of a release, set at build time by -ldflags "-X main.version=v1.2.3".
// Other builds read theirs from the build information.
var version string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // A second signal terminates the process immediately.
	command := newCommand()
	if filepath.Base(os.Args[0]) == completer {
		command.SetArgs(append([]string{"__complete"}, os.Args[1:]...))
	}
	err := command.ExecuteContext(ctx)
	if message := complaint(err); message != "" {
		fmt.Fprintln(os.Stderr, message)
	}
	os.Exit(exitCode(err))
}
