// Command annotatedscaler is the scaler with demand that a test sets: it reads an annotation of each HTTPScaledObject
// instead of the reports of the interceptors. The rest is the scaler's own code. The suite e2e/suites/keda runs it
// instead of the scaler.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/canary"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// annotation contains the demand: fields of metrics.Value in JSON, or anything else for unknown demand.
const annotation = "test.kedify.io/figure"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	logger := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if err := run(ctx, logger); err != nil {
		fmt.Fprintln(os.Stderr, "annotatedscaler:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, logger *slog.Logger) error {
	config := func() (*rest.Config, error) { return kube.Config("", "annotatedscaler") }
	demand := source{kube.NewCache[*object](nil)}
	canaries := canary.New(config)
	observer, err := scaler.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		return err
	}
	service := scaler.NewService(demand, canaries, observer, logger)
	calls := scaler.NewServer(scaler.DefaultMaxStreams, observer, logger)
	service.Register(calls)
	health := server.NewHealth("keda-add-ons-http-external-scaler", func() []string { return nil })
	health.SetReady()
	probes, err := server.Listen(ctx, "health", ":8080", "")
	if err != nil {
		return err
	}
	listener, err := server.Listen(ctx, "gRPC", ":9090", "")
	if err != nil {
		return err
	}
	return server.Run(ctx, health, server.Shutdown{Delay: 3 * time.Second, Deadline: 15 * time.Second}, logger,
		server.Component{
			Name: "health", Run: func(ctx context.Context) error { return server.ServeHTTP(ctx, probes, health, logger) },
		},
		server.Component{Name: "canaries", Run: func(ctx context.Context) error { return canaries.Run(ctx, logger) }},
		server.Component{
			Name: "demand", Run: func(ctx context.Context) error { return demand.run(ctx, kube.NewClient(config), logger) },
		},
		server.Component{Name: "gRPC", Run: func(ctx context.Context) error {
			context.AfterFunc(ctx, func() {
				service.Close()
				calls.GracefulStop()
			})
			return calls.Serve(listener)
		}})
}

// object is an HTTPScaledObject with its annotations.
type object struct {
	Metadata struct {
		Name            string            `json:"name"`
		Namespace       string            `json:"namespace"`
		ResourceVersion string            `json:"resourceVersion"`
		Annotations     map[string]string `json:"annotations"`
	} `json:"metadata"`
}

func (o *object) Name() types.NamespacedName {
	return types.NamespacedName{Namespace: o.Metadata.Namespace, Name: o.Metadata.Name}
}

func (o *object) Version() string { return o.Metadata.ResourceVersion }

// source implements scaler.Reader with the annotations.
type source struct{ *kube.Cache[*object] }

func (s source) run(ctx context.Context, client *kube.Client, logger *slog.Logger) error {
	s.Follow(ctx, kube.Source[*object]{
		Client: client,
		Path: func(context.Context) ([]string, error) {
			return []string{"apis", httpv1alpha1.Group, httpv1alpha1.Version, httpv1alpha1.Resource}, nil
		},
		Decode: func(raw []byte) (*object, error) {
			o := new(object)
			return o, json.Unmarshal(raw, o)
		},
		Title: "HTTPScaledObjects",
	}, logger)
	return nil
}

var errUnknown = errors.New("the test has set no demand")

// Demand returns the latest demand that the test has set.
func (s source) Demand(key model.Key) (demand metrics.Value, err error) {
	o, isKnown, isSynced := s.Get(types.NamespacedName(key))
	switch {
	case !isSynced:
		return demand, errUnknown
	case !isKnown:
		return demand, scaler.ErrNoObject
	}
	if err := json.Unmarshal([]byte(o.Metadata.Annotations[annotation]), &demand); err != nil {
		return metrics.Value{}, fmt.Errorf("%w: %w", errUnknown, err)
	}
	return demand, nil
}

// Connections returns an error: no test sets it.
func (s source) Connections(model.Fleet) (float64, error) { return 0, errUnknown }

// Changed returns a channel that is closed when the object changes.
func (s source) Changed(key model.Key) <-chan struct{} {
	return s.Cache.Changed(types.NamespacedName(key))
}
