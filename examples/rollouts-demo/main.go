// Command rollouts-demo is the sample app of the canary guide: it answers every request for /color with the one colour
// of its image, and serves a page that visualizes those answers as they arrive. Other guides' images are this app, too,
// with another path and port. It can also answer connections and datagrams without HTTP, for which `rollouts-demo
// request` is the client.
//
// It behaves as an app behind a load balancer must on SIGTERM: it turns its readiness off, continues to serve while its
// endpoints are removed, and only then closes its port.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// shutdownTimeout bounds the wait for pending requests after the port is closed. Together with the default termination
// delay it stays below Kubernetes' default grace period of 30 s.
const shutdownTimeout = 15 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, log); err != nil {
		log.Error("rollouts-demo ended", "error", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop has run: nothing deferred is lost
	}
}

// options are the values of the flags and the environment.
type options struct {
	listen           string
	raw              rawAddresses
	terminationDelay time.Duration
	app              settings
	version          bool
}

// parse parses the flags. The environment sets their defaults, because an image can contain an environment.
func parse(args []string, getenv func(string) string, out io.Writer) (options, error) {
	var o options
	color := getenv("COLOR")
	if color == "" {
		color = "blue"
	}
	errorRate, err := number(getenv("ERROR_RATE"))
	if err != nil {
		return options{}, fmt.Errorf("environment variable ERROR_RATE: %w", err)
	}
	latency, err := number(getenv("LATENCY"))
	if err != nil {
		return options{}, fmt.Errorf("environment variable LATENCY: %w", err)
	}
	flags := flag.NewFlagSet("rollouts-demo", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&o.listen, "listen-addr", cmp.Or(getenv("LISTEN_ADDR"), ":8080"),
		"address to listen on (environment: LISTEN_ADDR)")
	flags.StringVar(&o.raw.tcp, "tcp-addr", "",
		"address that answers each connection with the colour, without HTTP (default: none)")
	flags.StringVar(&o.raw.tls, "tls-addr", "", "the same behind a self-signed certificate (default: none)")
	flags.StringVar(&o.raw.udp, "udp-addr", "", "address that answers each datagram with the colour (default: none)")
	flags.StringVar(&o.app.path, "color-path", cmp.Or(getenv("COLOR_PATH"), "/color"),
		"path that returns the colour (environment: COLOR_PATH)")
	flags.DurationVar(&o.terminationDelay, "termination-delay", 10*time.Second,
		"how long to continue to serve after SIGTERM")
	flags.StringVar(&o.app.color, "color", color, "the colour to answer (environment: COLOR)")
	flags.Float64Var(&o.app.errorRate, "error-rate", errorRate,
		"percentage of requests for the colour that get a 500 (environment: ERROR_RATE)")
	flags.DurationVar(&o.app.latency, "latency", time.Duration(latency*float64(time.Second)),
		"delay of a request for the colour (environment: LATENCY, in seconds)")
	flags.BoolVar(&o.version, "version", false, "print the version and exit")
	if err := flags.Parse(args); err != nil {
		return options{}, fmt.Errorf("parse the flags: %w", err)
	}
	if flags.NArg() > 0 {
		return options{}, fmt.Errorf("argument %q: there are only flags, and the subcommand request", flags.Arg(0))
	}
	if !strings.HasPrefix(o.app.path, "/") || strings.ContainsAny(o.app.path, " {}") || o.app.path == healthPath ||
		o.app.path == countPath {
		return options{}, fmt.Errorf("color path %q: it must begin with /, and must not be a pattern, %s or %s", o.app.path,
			healthPath, countPath)
	}
	if o.app.errorRate < 0 || o.app.errorRate > 100 {
		return options{}, fmt.Errorf("error rate %v: it must be a percentage from 0 to 100", o.app.errorRate)
	}
	return o, nil
}

// number parses a decimal number; an empty text is zero.
func number(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number: %w", text, err)
	}
	return n, nil
}

// run serves until ctx ends, and then for the termination delay.
func run(ctx context.Context, args []string, getenv func(string) string, out io.Writer, log *slog.Logger) error {
	if len(args) > 0 && args[0] == "request" {
		return runRequest(ctx, args[1:], out)
	}
	o, err := parse(args, getenv, out)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if o.version {
		_, err := fmt.Fprintln(out, version())
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return fmt.Errorf("open the port: %w", err)
	}
	raw, err := serveRaw(ctx, o.raw, o.app.color)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	app := newApp(o.app)
	server := newServer(app)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	log.InfoContext(ctx, "serving", "address", listener.Addr().String(), "color", o.app.color)
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	log.InfoContext(ctx, "stopping", "servingFor", o.terminationDelay.String())
	return errors.Join(drain(context.WithoutCancel(ctx), server, app, o.terminationDelay), raw.close())
}

// newServer sets an idle timeout longer than that of proxies, which is an hour with Envoy. A server that closes an idle
// connection first may do so just when the proxy sends a request over it, and that request is lost.
func newServer(handler http.Handler) *http.Server {
	return &http.Server{Handler: handler, ReadHeaderTimeout: 2 * time.Hour}
}

// drain continues to serve for delay and asks every client to reconnect. Then it closes the server after its last
// answer.
func drain(ctx context.Context, server *http.Server, app *app, delay time.Duration) error {
	app.drain()
	timer := time.NewTimer(delay)
	defer timer.Stop()
	<-timer.C
	ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return fmt.Errorf("wait for pending answers: %w", err)
	}
	return nil
}

// version is the module version that the binary was built from.
func version() string {
	build, ok := debug.ReadBuildInfo()
	if !ok || build.Main.Version == "" {
		return "rollouts-demo (unknown version)"
	}
	return "rollouts-demo " + build.Main.Version
}
