// Package command is the command line of a router plugin's binary. The Argo Rollouts controller starts the binary with the arguments of its configuration and a
// cookie in the environment; started by hand it explains itself, and "install" copies it to where a controller finds it.
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
	// Name is the binary's name in messages, logs and requests, and the file that install makes in a folder.
	Name string
	// Version is the version of a release. Where it is empty, the build information tells the version.
	Version string
	// Usage is what --help says before the flags.
	Usage string
	// Flags adds the flags that only this binary has. May be nil.
	Flags func(*flag.FlagSet)
	// Router makes the router. What it starts ends with ctx.
	Router func(ctx context.Context, with Surroundings) router.Router
}

// Surroundings are what a router is made of.
type Surroundings struct {
	// Config tells how to reach the API server. It may fail at first and succeed later.
	Config func() (*rest.Config, error)
	// Log is where the router logs.
	Log *slog.Logger
}

// options are what the command line of every plugin can set.
type options struct {
	kubeconfig  string
	level       slog.Level
	format      format
	qps         float64
	burst       int
	showVersion bool
}

// format is the notation of the log.
type format string

// The notations of the log.
const (
	// jsonFormat is hclog's JSON, of which the controller keeps level and attributes.
	jsonFormat format = "json"
	// textFormat is slog's text.
	textFormat format = "text"
)

// MarshalText is the notation's name.
func (f format) MarshalText() ([]byte, error) { return []byte(f), nil }

// UnmarshalText reads a notation's name.
func (f *format) UnmarshalText(text []byte) error {
	switch given := format(text); given {
	case jsonFormat, textFormat:
		*f = given
		return nil
	default:
		return fmt.Errorf("%q is neither %s nor %s", text, jsonFormat, textFormat)
	}
}

// Run is the program with its surroundings as arguments. It returns the exit code: 0 for done, 1 for failed, 2 for a wrong command line.
func (p Program) Run(args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	var chosen options
	flags := p.flags(&chosen)
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		p.printUsage(flags, stdout)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "%s: %v; --help tells what there is\n", p.Name, err)
		return 2
	case chosen.showVersion:
		fmt.Fprintln(stdout, p.Name, p.version())
		return 0
	case flags.Arg(0) == "install":
		return p.runInstall(flags.Args()[1:], stdout, stderr)
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "%s: unknown argument %q; --help tells what there is\n", p.Name, flags.Arg(0))
		return 2
	}
	if handshake := router.Handshake(); getenv(handshake.MagicCookieKey) != handshake.MagicCookieValue {
		p.printUsage(flags, stderr)
		return 1
	}
	p.serve(chosen, stderr)
	return 0
}

// flags are all flags of the program, which set chosen.
func (p Program) flags(chosen *options) *flag.FlagSet {
	flags := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&chosen.kubeconfig, "kubeconfig", "", "kubeconfig `file`; by default $KUBECONFIG, else the Pod's ServiceAccount, else ~/.kube/config")
	flags.TextVar(&chosen.level, "log-level", slog.LevelInfo, "lowest `level` that is logged: debug, info, warn or error")
	flags.TextVar(&chosen.format, "logformat", jsonFormat, "`notation` of the log: json, of which the controller keeps levels and attributes, or text")
	flags.Float64Var(&chosen.qps, "kubeClientQPS", 0, "limit of requests to the API server, a `second`; 0 for none")
	flags.IntVar(&chosen.burst, "kubeClientBurst", 0, "`requests` that may exceed that limit at once; 0 for 10")
	flags.BoolVar(&chosen.showVersion, "version", false, "print the version")
	if p.Flags != nil {
		p.Flags(flags)
	}
	return flags
}

// serve answers the controller until it ends the plugin.
func (p Program) serve(chosen options, stderr io.Writer) {
	log := router.NewLogger(stderr, chosen.level)
	if chosen.format == textFormat {
		log = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: chosen.level}))
	}
	klog.SetSlogLogger(log) // client-go's warnings would otherwise be lines without a level
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	made := p.Router(ctx, Surroundings{Config: func() (*rest.Config, error) { return p.config(chosen) }, Log: log})
	log.Debug("serving", "router", made.Type(), "version", p.version())
	router.Serve(made, log, stderr)
}

// config tells how to reach the API server.
func (p Program) config(chosen options) (*rest.Config, error) {
	config, err := kube.Config(chosen.kubeconfig, p.Name+"/"+p.version())
	if err != nil {
		return nil, err
	}
	if chosen.qps > 0 {
		config.QPS, config.Burst = float32(chosen.qps), chosen.burst
	}
	return config, nil
}

// runInstall is the subcommand install.
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

// printUsage prints what there is.
func (p Program) printUsage(flags *flag.FlagSet, w io.Writer) {
	fmt.Fprint(w, p.Usage)
	flags.SetOutput(w)
	flags.PrintDefaults()
}

// version is Version, or what the Go toolchain recorded about a build without it: the module's version, which holds the commit where the build
// saw one.
func (p Program) version() string {
	if p.Version != "" {
		return p.Version
	}
	if build, ok := debug.ReadBuildInfo(); ok && build.Main.Version != "" {
		return build.Main.Version
	}
	return "(unknown)"
}
