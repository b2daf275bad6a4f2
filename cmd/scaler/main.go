// Command scaler is an external scaler for KEDA. It reports the HTTP demand of workloads to KEDA, and activates a
// workload without replicas as soon as a request waits for it.
//
// It runs as a Deployment of two or more identical replicas; see config/scaler. Outside a cluster it uses a kubeconfig.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

// program is the name of the binary in messages, logs and requests.
const program = "scaler"

// version is the version of a release, set at build time by -ldflags "-X main.version=v1.2.3". Other builds use the
// build information.
var version string

// processors is the default of GOMAXPROCS. Calls are short: waking a second thread for each costs more than it saves,
// and one thread serves thousands per second.
const processors = 1

func main() {
	if _, isSet := os.LookupEnv("GOMAXPROCS"); !isSet {
		runtime.GOMAXPROCS(processors)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // A second signal ends the process at once.
	command := newCommand(os.LookupEnv, serve)
	if err := command.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
		os.Exit(1)
	}
}
