// Command rollouts-plugin-kedify is the traffic router kedify/http for Argo Rollouts. The Argo Rollouts controller starts it as a plugin and calls it over
// a socket; it writes the weights of canary Rollouts into the annotation http.kedify.io/weighted-backends of HTTPScaledObjects.
//
// Started by hand it explains itself, and "install" copies it to where a controller finds it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/router"
	"github.com/kedify/argo-rollouts-plugin/internal/router/connect"
	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
)

// program is the name of the binary in messages, logs and requests, and the file that install makes in a folder.
const program = "rollouts-plugin-kedify"

// version is the version of a release, set at build time by -ldflags "-X main.version=v1.2.3". Other builds read theirs from the build information.
var version string

const usage = `rollouts-plugin-kedify is the traffic router "kedify/http" for Argo Rollouts: it writes canary weights to HTTPScaledObjects.

The Argo Rollouts controller starts it; by hand it does nothing. To register it, put this into the ConfigMap argo-rollouts-config
in the controller's namespace and restart the controller:

  data:
    trafficRouterPlugins: |
      - name: "kedify/http"
        location: "file:///home/argo-rollouts/plugin-bin/rollouts-plugin-kedify"

Usage:
  rollouts-plugin-kedify [flags]              started by the controller; flags come from "args" beside "location"
  rollouts-plugin-kedify install DIR_OR_FILE  copy this binary, for an init container
  rollouts-plugin-kedify --version | --help

Flags:
`

func main() {
	os.Exit(run(os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

// options are what the command line can set.
type options struct {
	kubeconfig   string
	interceptors types.NamespacedName
	level        slog.Level
	showVersion  bool
}

// run is the program with its surroundings as arguments. It returns the exit code: 0 for done, 1 for failed, 2 for a wrong command line.
func run(args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	var chosen options
	flags := flag.NewFlagSet(program, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&chosen.kubeconfig, "kubeconfig", "", "kubeconfig `file`; by default the Pod's ServiceAccount, else $KUBECONFIG or ~/.kube/config")
	flags.StringVar(&chosen.interceptors.Namespace, "interceptor-namespace", httpv1alpha1.DefaultInterceptorNamespace, "`namespace` of the interceptors")
	flags.StringVar(&chosen.interceptors.Name, "interceptor-lease", httpv1alpha1.DefaultInterceptorLease,
		"`name` of the Lease there that they renew; while they do, weights are verified by what the proxies took")
	flags.TextVar(&chosen.level, "log-level", slog.LevelInfo, "lowest `level` that is logged: debug, info, warn or error")
	flags.BoolVar(&chosen.showVersion, "version", false, "print the version")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		printUsage(flags, stdout)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "%s: %v; --help tells what there is\n", program, err)
		return 2
	case chosen.showVersion:
		fmt.Fprintln(stdout, program, buildVersion())
		return 0
	case flags.Arg(0) == "install":
		return runInstall(flags.Args()[1:], stdout, stderr)
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "%s: unknown argument %q; --help tells what there is\n", program, flags.Arg(0))
		return 2
	}
	if handshake := router.Handshake(); getenv(handshake.MagicCookieKey) != handshake.MagicCookieValue {
		printUsage(flags, stderr)
		return 1
	}
	serve(chosen, stderr)
	return 0
}

// serve answers the controller until it ends the plugin.
func serve(chosen options, stderr io.Writer) {
	log := router.NewLogger(stderr, chosen.level)
	klog.SetSlogLogger(log) // client-go's warnings would otherwise be lines without a level
	userAgent := program + "/" + buildVersion()
	client := httpso.NewClient(func() (*rest.Config, error) { return connect.Config(chosen.kubeconfig, userAgent) })
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go client.Watch(ctx, log)
	log.Debug("serving", "router", httpso.Type, "version", buildVersion())
	router.Serve(httpso.New(client, chosen.interceptors, log), log, stderr)
}

// runInstall is the subcommand install.
func runInstall(args []string, stdout, stderr io.Writer) int {
	if len(args) != 1 || args[0] == "" {
		fmt.Fprintf(stderr, "usage: %s install DIR_OR_FILE\n", program)
		return 2
	}
	file, err := install(args[0])
	if err != nil {
		fmt.Fprintf(stderr, "%s: install: %v\n", program, err)
		return 1
	}
	fmt.Fprintln(stdout, "installed", program, buildVersion(), "as", file)
	return 0
}

func printUsage(flags *flag.FlagSet, w io.Writer) {
	fmt.Fprint(w, usage)
	flags.SetOutput(w)
	flags.PrintDefaults()
}

// buildVersion is version, or what the Go toolchain recorded about a build without it: the module's version, which holds the commit where the build
// saw one.
func buildVersion() string {
	if version != "" {
		return version
	}
	if build, ok := debug.ReadBuildInfo(); ok && build.Main.Version != "" {
		return build.Main.Version
	}
	return "(unknown)"
}
