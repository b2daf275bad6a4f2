// Command agent creates HTTPScaledObjects from the kedify-http triggers of ScaledObjects, keeps them up to date,
// and makes an unmodified KEDA accept such triggers by a mutating webhook.
//
// It runs as a Deployment. Of several replicas one is elected to write, and all serve the webhook. See
// config/agent. Outside a cluster it runs with a kubeconfig.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// program is the name of the binary in messages, logs and User-Agent headers.
const program = "agent"

// version is the release version, set at build time by -ldflags "-X main.version=v1.2.3". Other builds use their
// build information.
var version string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal terminates the process immediately
	if err := newCommand(os.LookupEnv, serve).ExecuteContext(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
		os.Exit(1)
	}
}
