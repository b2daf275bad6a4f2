package interceptorroutes

import (
	"fmt"
	"testing"

	"google.golang.org/grpc"

	"github.com/kedify/argo-rollouts-plugin/internal/scaler/externalscaler"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/coldstart"
)

// Names of the metrics that KEDA reads.
const (
	concurrency = "http-concurrency"
	requestRate = "http-request-rate"
)

// reference returns what KEDA sends to the scaler for a trigger that names the InterceptorRoute of an app.
func reference(app string) *externalscaler.ScaledObjectRef {
	return &externalscaler.ScaledObjectRef{
		Name: app, Namespace: coldstart.Namespace, ScalerMetadata: map[string]string{"interceptorRoute": app},
	}
}

// isActive returns whether the scaler reports an app as active to KEDA.
func (s *environment) isActive(t *testing.T, app string) (bool, error) {
	t.Helper()
	got, err := s.keda().IsActive(await.Context(t), reference(app), grpc.WaitForReady(true))
	return got.GetResult(), err
}

// awaitActive waits until the scaler reports to KEDA that an app is active, or that it is not.
func (s *environment) awaitActive(t *testing.T, app string, want bool) {
	t.Helper()
	last := ""
	await.Described(t, fmt.Sprintf("%s: active is %t", app, want), func() bool {
		got, err := s.isActive(t, app)
		last = fmt.Sprint(got, err)
		return err == nil && got == want
	}, func() string { return last })
}

// metric returns a metric of an app, as KEDA reads it.
func (s *environment) metric(t *testing.T, app, name string) (float64, error) {
	t.Helper()
	got, err := s.keda().GetMetrics(await.Context(t), &externalscaler.GetMetricsRequest{
		ScaledObjectRef: reference(app), MetricName: name,
	})
	if err != nil {
		return 0, err
	}
	if len(got.GetMetricValues()) != 1 {
		t.Fatalf("%s of %s: %d values", name, app, len(got.GetMetricValues()))
	}
	return got.GetMetricValues()[0].GetMetricValueFloat(), nil
}

// TestBothMetrics: KEDA reads both metrics of a route with both, with their targets.
func TestBothMetrics(t *testing.T) {
	const host = "metrics.test"
	metrics := shared.readyApp(t, "metrics")
	shared.addRoute(t, "metrics", "rules: [{hosts: [metrics.test]}], "+
		"scalingMetric: {concurrency: {targetValue: 5}, requestRate: {targetValue: 7}}")
	shared.awaitActive(t, "metrics", false)
	specs, err := shared.keda().GetMetricSpec(await.Context(t), reference("metrics"))
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]float64{}
	for _, spec := range specs.GetMetricSpecs() {
		targets[spec.GetMetricName()] = spec.GetTargetSizeFloat()
	}
	if len(targets) != 2 || targets[concurrency] != 5 || targets[requestRate] != 7 {
		t.Errorf("the targets are %v", targets)
	}

	waiting := begin(t, request{host: host, path: "/held"})
	await.Receive(t, "the request", metrics.arrived)
	for _, name := range []string{concurrency, requestRate} {
		await.True(t, name+" is above 0", func() bool {
			value, err := shared.metric(t, "metrics", name)
			return err == nil && value > 0
		})
	}
	shared.awaitActive(t, "metrics", true)
	close(metrics.release)
	if got := await.Receive(t, "the response", waiting); got.app != "metrics" {
		t.Errorf("%+v", got)
	}
}

// TestConcurrentRouting: requests to one app are not counted as those of another one.
func TestConcurrentRouting(t *testing.T) {
	for _, name := range []string{"busy", "idle"} {
		shared.readyApp(t, name)
		shared.addRoute(t, name, shortRate+"rules: [{hosts: ["+name+".test]}]")
		shared.awaitActive(t, name, false)
	}
	await.True(t, "the scaler reports the requests", func() bool {
		if got := send(t, request{host: "busy.test"}); got.app != "busy" {
			t.Errorf("%+v", got)
		}
		rate, err := shared.metric(t, "busy", requestRate)
		isActive, idleErr := shared.isActive(t, "idle")
		if isActive || idleErr != nil {
			t.Errorf("the app without requests: active is %t, %v", isActive, idleErr)
		}
		return err == nil && rate > 0
	})
	shared.awaitActive(t, "busy", true)
	if rate, err := shared.metric(t, "idle", requestRate); rate != 0 || err != nil {
		t.Errorf("the app without requests: the rate is %v, %v", rate, err)
	}
}
