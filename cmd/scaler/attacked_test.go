package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler"
)

// attackedVariable makes the test binary a scaler, see attacked.
const attackedVariable = "KEDIFY_TEST_ATTACKED_SCALER"

// steady is a demandSource with one request in flight for each object of KEDA, and queued requests for all others.
type steady struct{ busy }

func (s steady) Demand(object model.Key) (metrics.Value, error) {
	if object.Namespace == "shop" {
		return metrics.Value{Concurrency: 1}, nil
	}
	return s.busy.Demand(object)
}

// attacked runs a scaler with demand for every object, which logs to the standard output, until its input ends.
func attacked() int {
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		stop()
	}()
	demand := steady{busy{make(chan struct{})}}
	close(demand.seeded)
	chosen := local()
	chosen.maxStreams = scaler.DefaultMaxStreams
	if err := serveFrom(ctx, chosen, noAPI(), demand, slog.New(slog.NewJSONHandler(os.Stdout, nil)), new(slog.LevelVar)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
