package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/kedify/argo-rollouts-plugin/internal/scaler/externalscaler"
	"github.com/kedify/argo-rollouts-plugin/test/kit/coldstart"
)

// silence is how long KEDA's stream has to be silent before a request.
const silence = 50 * time.Millisecond

// measureNotify measures the time from a request for an app at zero to the scaler's message on KEDA's stream.
func (s *environment) measureNotify(ctx context.Context, results *report) (err error) {
	scaler, err := s.StartScaler(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scaler.Kill()) }()
	connection, err := grpc.NewClient(coldstart.ScalerAddress, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, connection.Close()) }()
	for app := range mostApps { // Each app once: a request is remembered for a while.
		elapsed, err := s.notifyOnce(ctx, externalscaler.NewExternalScalerClient(connection), app)
		if err != nil {
			return err
		}
		results.notified = append(results.notified, elapsed)
	}
	return nil
}

// notifyOnce takes one sample. KEDA's stream is open before the request.
func (s *environment) notifyOnce(
	ctx context.Context, keda externalscaler.ExternalScalerClient, app int,
) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	stream, err := keda.StreamIsActive(ctx, &externalscaler.ScaledObjectRef{
		Name: coldstart.AppName(app), Namespace: coldstart.Namespace,
		ScalerMetadata: map[string]string{
			"hosts": coldstart.AppHost(app), "service": coldstart.AppName(app), "port": "80",
			"httpScaledObject": coldstart.AppName(app),
		},
	}, grpc.WaitForReady(true))
	if err != nil {
		return 0, err
	}
	notified := make(chan time.Time, 1)
	go func() {
		if active, err := stream.Recv(); err == nil && active.GetResult() {
			notified <- time.Now()
		}
	}()
	select { // The stream is silent while the app receives no request.
	case <-notified:
		return 0, fmt.Errorf("%w: KEDA was notified of %s before a request", errAnswer, coldstart.AppName(app))
	case <-time.After(silence):
	}
	began := time.Now()
	waiting := coldstart.Send(ctx, coldstart.Proxy, app)
	var elapsed time.Duration
	select {
	case at := <-notified:
		elapsed = at.Sub(began)
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: KEDA was not notified of %s", errTimeout, coldstart.AppName(app))
	}
	cancel()
	<-waiting
	return elapsed, s.paths[0].awaitHeld(context.WithoutCancel(ctx), 0, pollInterval)
}
