package server

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Log formats.
const (
	// FormatJSON writes one JSON object per line.
	FormatJSON = "json"
	// FormatText writes one line of key=value pairs per record.
	FormatText = "text"
)

// maxScrapes is the number of requests for /metrics at the same time. A page of 10,000 objects takes tens of megabytes. The
// others get 503, and a reader that stalls ends with writeTimeout.
const maxScrapes = 3

// ErrFormat is the error of a log format that is neither FormatJSON nor FormatText.
var ErrFormat = errors.New("unknown log format")

// NewLogger returns a logger that writes to out, and its level, which may be changed. level is one of debug, info, warn
// and error in any letter case, optionally with an offset, as slog.Level.UnmarshalText reads it.
func NewLogger(out io.Writer, format, level string) (*slog.Logger, *slog.LevelVar, error) {
	threshold := new(slog.LevelVar)
	if err := threshold.UnmarshalText([]byte(level)); err != nil {
		return nil, nil, fmt.Errorf("log level %q: use debug, info, warn or error: %w", level, err)
	}
	options := &slog.HandlerOptions{Level: threshold}
	switch format {
	case FormatJSON:
		return slog.New(slog.NewJSONHandler(out, options)), threshold, nil
	case FormatText:
		return slog.New(slog.NewTextHandler(out, options)), threshold, nil
	default:
		return nil, nil, fmt.Errorf("%w %q: use %s or %s", ErrFormat, format, FormatJSON, FormatText)
	}
}

// NewRegistry returns a registry with the metrics of the Go runtime, of the process, and kedify_build_info with the
// labels component and version.
func NewRegistry(component, version string) (*prometheus.Registry, error) {
	registry := prometheus.NewRegistry()
	var failed error
	for _, collector := range []prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		BuildInfo(component, version),
	} {
		failed = errors.Join(failed, registry.Register(collector))
	}
	return registry, failed
}

// Version returns the version that was set at build time, or else the version in the build information.
func Version(stamped string) string {
	if stamped != "" {
		return stamped
	}
	if build, ok := debug.ReadBuildInfo(); ok && build.Main.Version != "" {
		return build.Main.Version
	}
	return "unknown"
}

// BuildInfo returns the metric kedify_build_info, for a registry that isn't from NewRegistry.
func BuildInfo(component, version string) prometheus.Collector {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "kedify", Name: "build_info", Help: "Always 1; the labels identify the program.",
		ConstLabels: prometheus.Labels{"component": component, "version": version},
	})
	build.Set(1)
	return build
}

// MetricsHandler serves /metrics in the formats of Prometheus and OpenMetrics, LogLevelPath to this machine, and 404
// elsewhere.
func MetricsHandler(registry prometheus.Gatherer, level *slog.LevelVar, logger *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(LogLevelPath, LogLevel{Level: level, Logger: logger})
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		EnableOpenMetrics: true, MaxRequestsInFlight: maxScrapes,
	}))
	return mux
}

// AddProfiling adds net/http/pprof to mux under /debug/pprof/. A profile slows the process down and exposes internals:
// the port must not be public.
func AddProfiling(mux *http.ServeMux) {
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
}
