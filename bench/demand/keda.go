package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/pace"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/externalscaler"
	"github.com/kedify/argo-rollouts-plugin/test/kit/coldstart"
)

const (
	// polling is KEDA's default pollingInterval. syncing is the HorizontalPodAutoscaler's
	// --horizontal-pod-autoscaler-sync-period.
	polling, syncing = 30 * time.Second, 15 * time.Second
	// metricName is the scaler's name of the rate.
	metricName = "http-request-rate"
	// atOnce is the number of concurrent calls.
	atOnce = 16
)

// keda is a client that calls the scaler as KEDA does, over one connection.
type keda struct {
	client  externalscaler.ExternalScalerClient
	objects int
	asked   atomic.Int64
}

// reference is the ScaledObjectRef that KEDA sends for an app's trigger.
func reference(app int) *externalscaler.ScaledObjectRef {
	return &externalscaler.ScaledObjectRef{
		Name: coldstart.AppName(app), Namespace: coldstart.Namespace, ScalerMetadata: map[string]string{
			"scalerAddress": coldstart.ScalerAddress, "hosts": coldstart.AppHost(app), "pathPrefixes": "/",
			"service": coldstart.AppName(app), "port": "80",
			"scalingMetric": "requestRate", "targetValue": "5",
		},
	}
}

// askedByKEDA measures while KEDA calls the scaler.
func (s *environment) askedByKEDA(
	ctx context.Context, measure func(context.Context) error, results *report,
) (err error) {
	connection, err := grpc.NewClient(coldstart.ScalerAddress, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, connection.Close()) }()
	k := &keda{client: externalscaler.NewExternalScalerClient(connection), objects: s.Apps}
	for app := range s.Apps { // Until all metrics are known.
		if err := pace.Until(ctx, patience, pollInterval, func() error { return k.ask(ctx, app) }); err != nil {
			return err
		}
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	group, inGroup := errgroup.WithContext(ctx)
	for app := range s.Apps {
		group.Go(func() error { return k.stream(inGroup, app) })
	}
	between := time.Duration(float64(time.Second) / (float64(s.Apps) * (1/polling.Seconds() + 1/syncing.Seconds())))
	group.Go(func() error {
		return pace.Every(inGroup, between, atOnce, func(ctx context.Context, n int) error { return k.ask(ctx, n%k.objects) })
	})
	group.Go(func() error {
		defer end()
		if err := pace.Wait(inGroup, polling/2); err != nil { // The streams are open by then.
			return err
		}
		before, began := k.asked.Load(), time.Now()
		err := measure(inGroup)
		results.CallsPerSecond = float64(k.asked.Load()-before) / time.Since(began).Seconds()
		return err
	})
	return group.Wait()
}

// ask makes the calls of one poll and of one sync.
func (k *keda) ask(ctx context.Context, app int) error {
	_, err := k.client.GetMetricSpec(ctx, reference(app), grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	metrics, err := k.client.GetMetrics(ctx,
		&externalscaler.GetMetricsRequest{ScaledObjectRef: reference(app), MetricName: metricName})
	if err != nil {
		return err
	}
	if values := metrics.GetMetricValues(); len(values) != 1 {
		return fmt.Errorf("%w: %d values for %s", errAnswer, len(values), coldstart.AppName(app))
	}
	_, err = k.client.IsActive(ctx, reference(app))
	k.asked.Add(3)
	return err
}

// stream receives pushed updates until ctx ends.
func (k *keda) stream(ctx context.Context, app int) error {
	stream, err := k.client.StreamIsActive(ctx, reference(app))
	for err == nil {
		_, err = stream.Recv()
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the measurement has ended
	}
	return fmt.Errorf("the stream of %s ended: %w", coldstart.AppName(app), err)
}
