package controlplane_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// seen is everything that the interceptor derives from an object.
type seen struct {
	Config   model.Config
	Problems []model.Problem
	Spec     metrics.Spec
	Err      string
	Status   httpv1alpha1.HTTPScaledObjectStatus
}

// observe returns what the interceptor derives from a spec.
func observe(spec httpv1alpha1.HTTPScaledObjectSpec) seen {
	object := kit.NewScaledObject("apps", "shop", "shop", 1)
	object.Spec = spec
	service := kit.NewService("apps", "shop")
	service.Spec.Ports[0].Name = "http"
	other := kit.NewService("apps", "other")
	other.Spec.Ports[0].Name = "http"
	var s seen
	s.Config, s.Problems = resolve.Build(resolve.Inputs{
		ScaledObjects: []*httpv1alpha1.HTTPScaledObject{object}, Services: kit.ResolveServices(service, other),
		EndpointSlices: kit.ResolveEndpointSlices(kit.NewEndpointSlice("apps", "shop", "10.0.0.1")),
	})
	var err error
	s.Spec, err = metrics.SpecOf(object)
	s.Err = fmt.Sprint(err)
	s.Status = status.Compute(object, ingest.Outcome{Problems: s.Problems}, status.Acks{}, "a", time.Unix(0, 0))
	return s
}

// fullSpec returns a spec in which every field is set.
func fullSpec() httpv1alpha1.HTTPScaledObjectSpec {
	duration := func(seconds int) *metav1.Duration {
		return &metav1.Duration{Duration: time.Duration(seconds) * time.Second}
	}
	return httpv1alpha1.HTTPScaledObjectSpec{
		Hosts: []string{"a.test"}, PathPrefixes: []string{"/a"},
		Headers: []httpv1alpha1.Header{{Name: "a", Value: new("1")}},
		ScaleTargetRef: httpv1alpha1.ScaleTargetRef{
			Name: "shop", APIVersion: "argoproj.io/v1alpha1", Kind: "Rollout", Service: "shop", Port: 80, PortName: "http",
		},
		ColdStartTimeoutFailoverRef: &httpv1alpha1.ColdStartTimeoutFailoverRef{
			Service: "other", Port: 80, PortName: "http", TimeoutSeconds: new(int32(7)),
		},
		Replicas:              &httpv1alpha1.ReplicaRange{Min: new(int32(0)), Max: new(int32(9))},
		TargetPendingRequests: new(int32(7)), ScaledownPeriod: new(int32(7)), InitialCooldownPeriod: new(int32(7)),
		ScalingMetric: &httpv1alpha1.ScalingMetric{
			Concurrency: &httpv1alpha1.ConcurrencyMetric{TargetValue: 7},
			RequestRate: &httpv1alpha1.RequestRateMetric{TargetValue: 7, Window: duration(9), Granularity: duration(3)},
		},
		Timeouts: &httpv1alpha1.Timeouts{ConditionWait: duration(7), ResponseHeader: duration(8)},
	}
}

// TestEveryFieldHasAReader removes each field of the spec on its own. If nothing that the interceptor derives from the
// object differs, then no one reads the field: apply it, or report it by a condition (package status, scalingFields).
// docs/reference/configuration.md lists who reads which field.
func TestEveryFieldHasAReader(t *testing.T) {
	t.Parallel()
	for _, path := range fieldsOf(reflect.TypeFor[httpv1alpha1.HTTPScaledObjectSpec](), "spec") {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			spec := fullSpec()
			switch { // Each of these hides others.
			case strings.HasSuffix(path, ".concurrency.targetValue"):
				spec.ScalingMetric.RequestRate = nil
			case strings.Contains(path, ".requestRate."):
				spec.ScalingMetric.Concurrency = nil
			case path == "spec.headers.valueWildcard":
				spec.Headers[0] = httpv1alpha1.Header{Name: "a", ValueWildcard: new("1*")}
			case path == "spec.headers.valueRegex":
				spec.Headers[0] = httpv1alpha1.Header{Name: "a", ValueRegex: new("1+")}
			case path == "spec.replicas.min":
				spec.Replicas.Min = new(int32(2))
			}
			if strings.HasSuffix(path, "ef.portName") {
				spec.ScaleTargetRef.Port, spec.ColdStartTimeoutFailoverRef.Port = 0, 0
			} else {
				spec.ScaleTargetRef.PortName, spec.ColdStartTimeoutFailoverRef.PortName = "", ""
			}
			without := *spec.DeepCopy()
			if !clearField(reflect.ValueOf(&without).Elem(), strings.Split(path, ".")[1:]) {
				t.Fatalf("%s is not set in fullSpec: set it", path)
			}
			if cmp.Equal(observe(spec), observe(without), cmp.Comparer(func(a, b model.Route) bool { return a.Equal(b) })) {
				t.Error("no component reads it")
			}
		})
	}
}

// fieldsOf returns the paths of the fields of a struct that are part of the API, without those that only have fields.
func fieldsOf(of reflect.Type, path string) []string {
	var paths []string
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		inner := field.Type
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && inner != reflect.TypeFor[metav1.Duration]() {
			paths = append(paths, fieldsOf(inner, path+"."+name)...)
		} else {
			paths = append(paths, path+"."+name)
		}
	}
	return paths
}

// clearField sets the field at a path to its zero value, and reports whether it had another one.
func clearField(value reflect.Value, path []string) bool {
	for value.Kind() == reflect.Pointer || value.Kind() == reflect.Slice {
		if value.Kind() == reflect.Pointer {
			value = value.Elem()
		} else {
			value = value.Index(0)
		}
	}
	for i := range value.NumField() {
		name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
		if name != path[0] {
			continue
		}
		field := value.Field(i)
		if len(path) > 1 {
			return clearField(field, path[1:])
		}
		hasValue := !field.IsZero()
		field.SetZero()
		return hasValue
	}
	return false
}
