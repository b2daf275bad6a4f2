// Command interceptor is the control plane of the Kedify HTTP proxies. It watches HTTPScaledObjects, Services and
// EndpointSlices, serves their configuration to every connected Envoy over xDS, and reports the result in the status of
// the HTTPScaledObjects.
//
// It runs as a Deployment of one or more equal replicas; see config/interceptor. Outside a cluster it runs with a
// kubeconfig. The environment variables GOGC and GOMEMLIMIT control its garbage collector
// (https://go.dev/doc/gc-guide); the Deployment sets both.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// program is the name of the binary in messages, logs and requests.
const program = "interceptor"

// version is the version of a release, set at build time by -ldflags "-X main.version=v1.2.3". Other builds read theirs
// from the build information.
var version string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // A second signal ends the process at once.
	command := newCommand(os.LookupEnv, serve)
	if err := command.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
		os.Exit(1)
	}
}
