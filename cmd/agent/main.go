// Command agent makes HTTPScaledObjects from the kedify-http triggers of ScaledObjects, keeps them
// up to date, and lets a stock KEDA understand those triggers by a mutating webhook.
//
// It runs as a Deployment; of several replicas one is elected to write, and all serve the webhook.
// See config/agent. Out of a cluster it runs with a kubeconfig.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// program is the name of the binary in messages, logs and requests.
const program = "agent"

// version is the version of a release, set at build time by -ldflags "-X main.version=v1.2.3".
// Other builds read theirs from the build information.
var version string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // A second signal ends the process at once.
	if err := newCommand(os.LookupEnv, serve).ExecuteContext(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
		os.Exit(1)
	}
}
