// Command interceptor is the control plane of the Kedify HTTP proxies. It watches HTTPScaledObjects, Services and EndpointSlices, tells every Envoy that
// connects over xDS what to serve, and reports to the owners of HTTPScaledObjects what became of them.
//
// It runs as a Deployment of one or more equal replicas; see config/interceptor. Out of a cluster it runs with a kubeconfig.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// program is the name of the binary in messages, logs and requests.
const program = "interceptor"

// version is the version of a release, set at build time by -ldflags "-X main.version=v1.2.3". Other builds read theirs from the build information.
var version string

// collectPercent is how much the heap may grow, in percent of what is in use, before garbage is collected: a fifth of Go's own default. The interceptor keeps much
// and makes little garbage, so that memory is what counts; a change costs what has changed, and collections stay rare. The environment variable GOGC takes
// precedence (https://go.dev/doc/gc-guide).
const collectPercent = 20

func main() {
	if _, isSet := os.LookupEnv("GOGC"); !isSet {
		debug.SetGCPercent(collectPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // A second signal ends the process at once.
	command := newCommand(os.LookupEnv, serve)
	if err := command.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
		os.Exit(1)
	}
}
