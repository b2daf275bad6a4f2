package scaler_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/externalscaler"
	"github.com/kedify/argo-rollouts-plugin/test/kit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// metric returns a response with the value of one metric.
func metric(name string, value float64) *externalscaler.GetMetricsResponse {
	return &externalscaler.GetMetricsResponse{
		MetricValues: []*externalscaler.MetricValue{{MetricName: name, MetricValueFloat: value}},
	}
}

// TestResponses checks the responses to KEDA for each state of the HTTPScaledObject.
func TestResponses(t *testing.T) {
	const rate, concurrency = "http-request-rate", "http-concurrency"
	byConcurrency := map[string]string{"scalingMetric": "concurrency"}
	above5 := map[string]string{"activationTargetValue": "5"}
	tests := []struct {
		name     string
		metadata map[string]string
		known    *state // nil if there is no such object
		asks     string // the name of the metric

		active     bool
		activeCode codes.Code
		value      float64
		valueCode  codes.Code
	}{
		{name: "no request", known: &state{}, asks: rate},
		{
			name: "requests", known: &state{demand: metrics.Value{RequestRate: 12.5, Concurrency: 3}}, asks: rate, active: true,
			value: 12.5,
		},
		{
			name: "the other metric", metadata: byConcurrency,
			known: &state{demand: metrics.Value{RequestRate: 12.5, Concurrency: 3}}, asks: concurrency, active: true, value: 3,
		},
		{
			name: "not above the activation value", metadata: above5, known: &state{demand: metrics.Value{RequestRate: 5}},
			asks: rate, value: 5,
		},
		{
			name: "above it", metadata: above5, known: &state{demand: metrics.Value{RequestRate: 5.1}}, asks: rate, active: true,
			value: 5.1,
		},
		{
			name: "a queued request activates, however high the activation value", metadata: above5,
			known: &state{demand: metrics.Value{Queued: 1}}, asks: rate, active: true,
		},
		{name: "a canary keeps the target active", known: &state{canary: true}, asks: rate, active: true},
		{
			name: "unknown demand is an error", known: &state{err: errSilent}, asks: rate,
			activeCode: codes.Unavailable, valueCode: codes.Unavailable,
		},
		{
			name: "the count of one replica proves activity, and is no value", known: &state{
				demand: metrics.Value{RequestRate: 3}, err: errSilent,
			}, asks: rate,
			active: true, valueCode: codes.Unavailable,
		},
		{
			name: "so does a request that one replica queues", known: &state{
				demand: metrics.Value{Queued: 1}, err: errSilent,
			}, asks: rate,
			active: true, valueCode: codes.Unavailable,
		},
		{
			name: "so does a canary", known: &state{err: errSilent, canary: true}, asks: rate,
			active: true, valueCode: codes.Unavailable,
		},
		{
			name: "without demand, an unknown canary might be one", known: &state{errCanary: errSilent}, asks: rate,
			activeCode: codes.Unavailable,
		},
		{
			name:  "with demand an unknown canary does not matter",
			known: &state{demand: metrics.Value{RequestRate: 1}, errCanary: errSilent}, asks: rate, active: true, value: 1,
		},
		{
			name: "an open stream keeps the target active, and is no rate", known: &state{
				demand: metrics.Value{Concurrency: 1},
			}, asks: rate, active: true,
		},
		{
			name: "an open stream activates, however high the activation value of the rate", metadata: above5,
			known: &state{demand: metrics.Value{RequestRate: 1, Concurrency: 1}}, asks: rate, active: true, value: 1,
		},
		{
			name:     "the activation value of concurrency is about requests in flight",
			metadata: map[string]string{"scalingMetric": "concurrency", "activationTargetValue": "5"},
			known:    &state{demand: metrics.Value{RequestRate: 9, Concurrency: 5}}, asks: concurrency, value: 5,
		},
		{
			name: "a stream at one replica proves activity while another replica is silent", known: &state{
				demand: metrics.Value{Concurrency: 1}, err: errSilent,
			}, asks: rate,
			active: true, valueCode: codes.Unavailable,
		},
		{
			name: "a rate that is not known while requests are in flight", known: &state{
				demand: metrics.Value{Concurrency: 3, RateError: errSilent},
			}, asks: rate,
			active: true, valueCode: codes.Unavailable,
		},
		{
			name: "a rate that is not known while no request is in flight", known: &state{
				demand: metrics.Value{RateError: errSilent},
			}, asks: rate,
			activeCode: codes.Unavailable, valueCode: codes.Unavailable,
		},
		{
			name: "the lower bound of the rate proves activity", known: &state{
				demand: metrics.Value{RequestRate: 3, RateError: errSilent},
			}, asks: rate,
			active: true, valueCode: codes.Unavailable,
		},
		{
			name: "concurrency that is known while the rate is not", metadata: byConcurrency,
			known: &state{
				demand: metrics.Value{Concurrency: 3, RateError: errSilent},
			}, asks: concurrency, active: true, value: 3,
		},
		{name: "no object", asks: rate, activeCode: codes.NotFound, valueCode: codes.NotFound},
		{
			name: "the metric that the trigger had before it was edited", known: &state{
				demand: metrics.Value{RequestRate: 1},
			}, asks: concurrency,
			active: true, valueCode: codes.InvalidArgument,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newFakeSource()
			if test.known != nil {
				w.set(web, *test.known)
			}
			client, _, _ := serve(t, w, 10)
			ref := reference(test.metadata)
			isActive, err := client.IsActive(t.Context(), ref)
			if isActive.GetResult() != test.active || status.Code(err) != test.activeCode {
				t.Errorf("IsActive = %v, %v; want %v, %v", isActive.GetResult(), err, test.active, test.activeCode)
			}
			var want *externalscaler.GetMetricsResponse
			if test.valueCode == codes.OK {
				want = metric(test.asks, test.value)
			}
			got, err := client.GetMetrics(
				t.Context(), &externalscaler.GetMetricsRequest{ScaledObjectRef: ref, MetricName: test.asks},
			)
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" || status.Code(err) != test.valueCode {
				t.Errorf("GetMetrics: %v, want %v; (-want +got)\n%s", err, test.valueCode, diff)
			}
			if _, err := client.GetMetricSpec(t.Context(), ref); err != nil {
				t.Errorf("GetMetricSpec depends on more than the metadata: %v", err)
			}
		})
	}
}

func TestMetricSpec(t *testing.T) {
	tests := []struct {
		name     string
		metadata map[string]string
		want     *externalscaler.MetricSpec
		wantErr  []string // in the error
	}{
		{name: "defaults", want: &externalscaler.MetricSpec{MetricName: "http-request-rate", TargetSizeFloat: 100}},
		{
			name: "all keys that apply", metadata: map[string]string{
				"scalingMetric": "concurrency", "targetValue": "5", "activationTargetValue": "1", "httpScaledObject": "web-2",
			},
			want: &externalscaler.MetricSpec{MetricName: "http-concurrency", TargetSizeFloat: 5},
		},
		{
			name: "keys of other components are ignored", metadata: map[string]string{
				"hosts": "a.test", "window": "1m", "scalerAddress": "x:1", "targetValue": "7",
			},
			want: &externalscaler.MetricSpec{MetricName: "http-request-rate", TargetSizeFloat: 7},
		},
		{
			name: "an unknown metric", metadata: map[string]string{"scalingMetric": "cpu"},
			wantErr: []string{"shop/web", "scalingMetric", `"cpu"`, "use one of requestRate, concurrency"},
		},
		{
			name: "empty values count as missing, as in the agent", metadata: map[string]string{
				"scalingMetric": "", "httpScaledObject": " ", "targetValue": " 7 ",
			},
			want: &externalscaler.MetricSpec{MetricName: "http-request-rate", TargetSizeFloat: 7},
		},
		{
			name: "no number", metadata: map[string]string{"targetValue": "ten"},
			wantErr: []string{"targetValue", `"ten"`, "a whole number of at least 1"},
		},
		{
			name:     "no whole number, which the HTTPScaledObject could not have",
			metadata: map[string]string{"targetValue": "0.5"}, wantErr: []string{"targetValue"},
		},
		{name: "not a number", metadata: map[string]string{"targetValue": "NaN"}, wantErr: []string{"targetValue"}},
		{name: "infinity", metadata: map[string]string{"targetValue": "Inf"}, wantErr: []string{"targetValue"}},
		{
			name: "negative", metadata: map[string]string{"activationTargetValue": "-1"},
			wantErr: []string{"activationTargetValue", `"-1"`},
		},
		{
			name: "several validation errors at once", metadata: map[string]string{
				"targetValue": "0", "activationTargetValue": "x",
			},
			wantErr: []string{"targetValue", "activationTargetValue"},
		},
		{
			name: "a name in another namespace", metadata: map[string]string{"httpScaledObject": "other/web"},
			wantErr: []string{"httpScaledObject", "other/web"},
		},
	}
	client, _, _ := serve(t, newFakeSource(), 10)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := client.GetMetricSpec(t.Context(), reference(test.metadata))
			if test.want != nil {
				want := &externalscaler.GetMetricSpecResponse{MetricSpecs: []*externalscaler.MetricSpec{test.want}}
				if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" || err != nil {
					t.Errorf("%v (-want +got)\n%s", err, diff)
				}
				return
			}
			if status.Code(err) != codes.InvalidArgument {
				t.Fatalf("error %v, want an invalid argument", err)
			}
			for _, part := range test.wantErr {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not contain %q: %v", part, err)
				}
			}
			_, errActive := client.IsActive(t.Context(), reference(test.metadata))
			_, errMetrics := client.GetMetrics(
				t.Context(), &externalscaler.GetMetricsRequest{ScaledObjectRef: reference(test.metadata)},
			)
			if status.Code(errActive) != codes.InvalidArgument || status.Code(errMetrics) != codes.InvalidArgument {
				t.Errorf("the other calls: %v, %v", errActive, errMetrics)
			}
		})
	}
}

// TestNamespaceOfTheScaledObject requests the demand of another namespace by every metadata key that might name one.
func TestNamespaceOfTheScaledObject(t *testing.T) {
	w := newFakeSource()
	w.set(types.NamespacedName{Namespace: "bank", Name: "web"}, state{demand: metrics.Value{RequestRate: 9, Queued: 1}})
	w.set(web, state{})
	client, _, _ := serve(t, w, 10)
	for _, metadata := range []map[string]string{
		{"namespace": "bank"}, {"scaledObjectNamespace": "bank"}, {"httpScaledObjectNamespace": "bank"}, {
			"httpScaledObject": "web", "namespace": "bank",
		},
	} {
		if got, err := client.IsActive(t.Context(), reference(metadata)); got.GetResult() || err != nil {
			t.Errorf("%v: active %v, %v", metadata, got.GetResult(), err)
		}
	}
	ref := &externalscaler.ScaledObjectRef{
		Namespace: "bank", Name: "shop", ScalerMetadata: map[string]string{"httpScaledObject": "web"},
	}
	if got, err := client.IsActive(t.Context(), ref); !got.GetResult() || err != nil {
		t.Errorf("the owner: active %v, %v", got.GetResult(), err)
	}
}

func TestCallsAreCounted(t *testing.T) {
	w := newFakeSource()
	w.set(web, state{err: errSilent})
	client, _, registry := serve(t, w, 10)
	for range 2 {
		_, _ = client.IsActive(t.Context(), reference(nil))
	}
	_, _ = client.GetMetricSpec(t.Context(), reference(nil))
	const want = `# HELP kedify_scaler_calls_total Calls from KEDA by method and gRPC status code.
# TYPE kedify_scaler_calls_total counter
kedify_scaler_calls_total{code="OK",method="GetMetricSpec"} 1
kedify_scaler_calls_total{code="Unavailable",method="IsActive"} 2
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "kedify_scaler_calls_total"); err != nil {
		t.Error(err)
	}
}

// TestStreamMetricSpecIsUnimplemented checks the only status after which KEDA 2.21, which opens such a stream for each
// trigger, does not retry (streamMetricSpecOnce in pkg/scalers/external_scaler.go).
func TestStreamMetricSpecIsUnimplemented(t *testing.T) {
	connection, _, _ := connect(t, newFakeSource(), 10)
	stream, err := connection.NewStream(
		t.Context(), &grpc.StreamDesc{ServerStreams: true}, "/externalscaler.ExternalScaler/StreamMetricSpec",
	)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(stream.SendMsg(reference(nil)), stream.CloseSend())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.RecvMsg(new(externalscaler.GetMetricSpecResponse)); status.Code(err) != codes.Unimplemented {
		t.Errorf("the stream ends with %v, want %v", err, codes.Unimplemented)
	}
}

// TestPanicFailsOnlyItsCall has a trigger with which the scaler panics, and one without.
func TestPanicFailsOnlyItsCall(t *testing.T) {
	t.Parallel()
	source := newFakeSource()
	poison := types.NamespacedName{Namespace: "shop", Name: "poison"}
	source.set(poison, state{panics: true})
	poisoned := &externalscaler.ScaledObjectRef{Namespace: poison.Namespace, Name: poison.Name}
	source.set(web, state{demand: metrics.Value{RequestRate: 7}})
	client, _, _ := serve(t, source, 10)
	if _, err := client.IsActive(t.Context(), poisoned); status.Code(err) != codes.Internal {
		t.Errorf("IsActive: %v, want code Internal", err)
	}
	stream, err := client.StreamIsActive(t.Context(), poisoned)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Internal {
		t.Errorf("StreamIsActive: %v, want code Internal", err)
	}
	if answer, err := client.IsActive(t.Context(), reference(nil)); err != nil || !answer.GetResult() {
		t.Errorf("IsActive of another object: %v, %v", answer, err)
	}
}
