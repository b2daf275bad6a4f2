// Command scaler is an external scaler for KEDA. It tells KEDA how many HTTP requests there are for
// a workload, and wakes one that has no replica as soon as a request waits for it.
//
// It runs as a Deployment of two or more equal replicas; see config/scaler. Out of a cluster it
// runs with a kubeconfig.
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

// version is the version of a release, set at build time by -ldflags "-X main.version=v1.2.3".
// Other builds read theirs from the build information.
var version string

// processors is how many threads run Go code at a time. Answers are short and come one after the other: waking up another thread for each costs more than
// it saves, and one processor answers thousands a second. The environment variable GOMAXPROCS takes precedence.
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
