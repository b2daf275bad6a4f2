// Package command is the command line of a router plugin's binary. The Argo Rollouts controller starts the binary with
// the arguments of its configuration and a cookie in the environment. Without the cookie the binary prints its usage;
// "install" copies it to the controller's plugin folder.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/router"
)

// Program is a router plugin's binary.
type Program struct {
	// Name is the binary's name in messages, logs and requests, and the file name that install creates in a folder.
	Name string
	// Version is the version of a release. If it is empty, the version is that of the build information.
	Version string
	// RouterType is the router's name in Rollouts and in the controller's configuration.
	RouterType string
	// Summary completes the sentence "It ..." in the usage.
	Summary string
	// Flags adds the flags that only this binary has. May be nil.
	Flags func(*flag.FlagSet)
	// NewRouter creates the router. Its goroutines end with ctx.
	NewRouter func(ctx context.Context, env Environment) router.Router
}

// Environment is what a router is created from.
type Environment struct {
	// Config returns the client configuration for the API server. It may fail at first and succeed later.
	Config func() (*rest.Config, error)
	// Log is the router's logger.
	Log *slog.Logger
}

// usage is the help text before the flags. Its arguments are Name, RouterType and Summary.
const usage = `%[1]s is the traffic router %[2]q for Argo Rollouts.
It %[3]s.

The Argo Rollouts controller starts it as a plugin. To register it, add this to the ConfigMap argo-rollouts-config in
the controller's namespace and restart the controller:

  data:
    trafficRouterPlugins: |
      - name: %[2]q
        location: "file:///home/argo-rollouts/plugin-bin/%[1]s"

Usage:
  %[1]s [flags]              started by the controller with the "args" next to "location"
  %[1]s install DIR_OR_FILE  copy this binary, for an init container
  %[1]s --version | --help

Flags:
`

// options are the flags of every plugin.
type options struct {
	kubeconfig  string
	level       slog.Level
	format      format
	qps         float64
	burst       int
	showVersion bool
}

// format is the log format.
type format string

// The log formats.
const (
	// jsonFormat is hclog JSON: the controller preserves its levels and attributes.
	jsonFormat format = "json"
	// textFormat is slog's text format.
	textFormat format = "text"
)

// MarshalText returns the format's name.
func (f format) MarshalText() ([]byte, error) { return []byte(f), nil }

// UnmarshalText parses a format's name.
func (f *format) UnmarshalText(text []byte) error {
	switch given := format(text); given {
	case jsonFormat, textFormat:
		*f = given
		return nil
	default:
		return fmt.Errorf("%q is neither %s nor %s", text, jsonFormat, textFormat)
	}
}

// Run runs the program. It returns the exit code: 0 for success, 1 for failure, 2 for invalid usage.
func (p Program) Run(args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	var opts options
	flags := p.flags(&opts)
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		p.printUsage(flags, stdout)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "%s: %v; see --help\n", p.Name, err)
		return 2
	case opts.showVersion:
		fmt.Fprintln(stdout, p.Name, p.version())
		return 0
	case flags.Arg(0) == "install":
		return p.runInstall(flags.Args()[1:], stdout, stderr)
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "%s: unknown argument %q; see --help\n", p.Name, flags.Arg(0))
		return 2
	}
	if handshake := router.Handshake(); getenv(handshake.MagicCookieKey) != handshake.MagicCookieValue {
		p.printUsage(flags, stderr)
		return 1
	}
	p.serve(opts, stderr)
	return 0
}

// flags returns the flags of the program, which set opts.
func (p Program) flags(opts *options) *flag.FlagSet {
	flags := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&opts.kubeconfig, "kubeconfig", "",
		"kubeconfig `file`; default: $KUBECONFIG, the Pod's ServiceAccount, ~/.kube/config, in this order")
	flags.TextVar(&opts.level, "log-level", slog.LevelInfo, "minimum log `level`: debug, info, warn or error")
	flags.TextVar(&opts.format, "logformat", jsonFormat,
		"log `format`: json (the controller preserves levels and attributes) or text")
	flags.Float64Var(&opts.qps, "kubeClientQPS", 0, "maximum `requests` per second to the API server; 0 for no limit")
	flags.IntVar(&opts.burst, "kubeClientBurst", 0, "burst of `requests` above kubeClientQPS; 0 for 10")
	flags.BoolVar(&opts.showVersion, "version", false, "print the version")
	if p.Flags != nil {
		p.Flags(flags)
	}
	return flags
}

// serve serves the router to the controller until the controller ends the plugin.
func (p Program) serve(opts options, stderr io.Writer) {
	log := router.NewLogger(stderr, opts.level)
	if opts.format == textFormat {
		log = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: opts.level}))
	}
	klog.SetSlogLogger(log) // client-go's warnings would otherwise be lines without a level
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	config := func() (*rest.Config, error) { return p.config(opts) }
	served := p.NewRouter(ctx, Environment{Config: config, Log: log})
	log.Debug("serving", "router", served.Type(), "version", p.version())
	router.Serve(served, log, stderr)
}

// config returns the client configuration for the API server.
func (p Program) config(opts options) (*rest.Config, error) {
	config, err := kube.Config(opts.kubeconfig, p.Name+"/"+p.version())
	if err != nil {
		return nil, err
	}
	if opts.qps > 0 {
		config.QPS, config.Burst = float32(opts.qps), opts.burst
	}
	return config, nil
}

// runInstall runs the subcommand install.
func (p Program) runInstall(args []string, stdout, stderr io.Writer) int {
	if len(args) != 1 || args[0] == "" {
		fmt.Fprintf(stderr, "usage: %s install DIR_OR_FILE\n", p.Name)
		return 2
	}
	file, err := install(p.Name, args[0])
	if err != nil {
		fmt.Fprintf(stderr, "%s: install: %v\n", p.Name, err)
		return 1
	}
	fmt.Fprintln(stdout, "installed", p.Name, p.version(), "as", file)
	return 0
}

// printUsage prints the help text.
func (p Program) printUsage(flags *flag.FlagSet, w io.Writer) {
	fmt.Fprintf(w, usage, p.Name, p.RouterType, p.Summary)
	flags.SetOutput(w)
	flags.PrintDefaults()
}

// version returns Version, or the module version that the Go toolchain recorded, which contains the commit if the build
// had one.
func (p Program) version() string {
	if p.Version != "" {
		return p.Version
	}
	if build, ok := debug.ReadBuildInfo(); ok && build.Main.Version != "" {
		return build.Main.Version
	}
	return "(unknown)"
}
