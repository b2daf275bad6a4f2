package status_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
)

// schemaServer is an API server with a CustomResourceDefinition and one object. test/apiserver has the same tests with
// a real API server.
type schemaServer struct {
	declared  []string      // the fields of a status that the CRD declares
	forbidden bool          // whether a write of the object itself is forbidden
	hang      chan struct{} // blocks requests for the schema until closed; nil for none

	mu         sync.Mutex
	log        bytes.Buffer // the log of the Clients
	requests   []string     // the requests since the last call of expect
	status     map[string]any
	annotation string
}

// RoundTrip implements http.RoundTripper.
func (s *schemaServer) RoundTrip(request *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	recorder.Header().Set("Content-Type", "application/json")
	s.serve(recorder, request)
	return recorder.Result(), nil
}

// serve handles one request.
func (s *schemaServer) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.HasPrefix(r.URL.Path, "/openapi/v3/") {
		s.requests = append(s.requests, "schema")
		if hang := s.hang; hang != nil {
			s.mu.Unlock()
			<-hang
			s.mu.Lock()
		}
		_ = json.NewEncoder(w).Encode(s.schema())
		return
	}
	text, err := io.ReadAll(r.Body)
	var applied struct {
		Metadata struct{ Annotations map[string]string }
		Status   map[string]any
	}
	if err := errors.Join(err, json.Unmarshal(text, &applied)); err != nil {
		panic(err)
	}
	if !strings.HasSuffix(r.URL.Path, "/status") {
		s.requests = append(s.requests, "annotation")
		if s.forbidden {
			refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden)
			return
		}
		s.annotation = applied.Metadata.Annotations[httpv1alpha1.AnnotationStatus]
		_, _ = w.Write(text)
		return
	}
	s.requests = append(s.requests, "status")
	for field := range applied.Status {
		if !slices.Contains(s.declared, field) {
			refuse(w, http.StatusInternalServerError, metav1.StatusReasonInternalError)
			return
		}
	}
	s.status = applied.Status
	_, _ = w.Write(text)
}

// schema returns the published schema.
func (s *schemaServer) schema() map[string]any {
	properties := map[string]any{}
	for _, field := range s.declared {
		properties[field] = map[string]any{"x-kubernetes-preserve-unknown-fields": true}
	}
	return map[string]any{"components": map[string]any{"schemas": map[string]any{
		"http.keda.sh.v1alpha1.HTTPScaledObjectList": map[string]any{},
		"http.keda.sh.v1alpha1.HTTPScaledObject": map[string]any{
			"properties": map[string]any{"status": map[string]any{"properties": properties}},
			"x-kubernetes-group-version-kind": []any{map[string]any{
				"group": "http.keda.sh", "version": "v1alpha1",
				"kind": "HTTPScaledObject",
			}},
		},
	}}}
}

// refuse responds with a Status.
func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code),
		Reason: reason,
	})
}

// client returns a Client of the server.
func (s *schemaServer) client(t *testing.T) status.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	config := &rest.Config{APIPath: "/apis", Transport: s}
	config.GroupVersion = &httpv1alpha1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	made, err := rest.RESTClientFor(config)
	if err := errors.Join(err, httpv1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return status.NewClient(made, nil, made, slog.New(slog.NewTextHandler(&s.log, nil)))
}

// expect compares the requests since the last call.
func (s *schemaServer) expect(t *testing.T, when string, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if diff := cmp.Diff(want, s.requests); diff != "" {
		t.Errorf("%s: requests (-want +got):\n%s", when, diff)
	}
	s.requests = nil
}

func TestSchemaWithoutReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		older, ours := []string{"targetService", "targetWorkload"}, []string{
			"targetService", "targetWorkload",
			"conditions", "dataPlane",
		}
		server := &schemaServer{declared: older}
		client := server.client(t)
		object := shop()
		report := func(when string, want ...string) {
			t.Helper()
			object.Status = status.Compute(object, ingest.Outcome{Served: true}, status.Acks{}, "interceptor-0",
				noon())
			if err := client.ApplyStatus(t.Context(), object, object.Status); err != nil {
				t.Errorf("%s: %v", when, err)
			}
			server.expect(t, when, want...)
			stored := shop()
			if server.annotation != "" {
				stored.Annotations = map[string]string{httpv1alpha1.AnnotationStatus: server.annotation}
			}
			object.Annotations = stored.Annotations
			text, err := json.Marshal(server.status)
			if err := errors.Join(err, json.Unmarshal(text, &stored.Status)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(object.Status, httpv1alpha1.StatusOf(stored)); diff != "" {
				t.Errorf("%s: the status (-written +read):\n%s", when, diff)
			}
		}
		report("unknown schema", "status", "schema", "annotation", "status")
		report("known schema", "annotation", "status")
		time.Sleep(2 * time.Minute) // synctest time, here and below
		report("old schema", "schema", "annotation", "status")
		server.declared = ours
		report("a newer CRD, before the next read", "annotation", "status")
		time.Sleep(2 * time.Minute)
		report("a newer CRD, and the annotation is removed", "schema", "status", "annotation")
		report("no annotation", "status")
	})
}

func TestForbiddenAnnotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &schemaServer{
			declared:  []string{"targetService", "targetWorkload", "conditions"},
			forbidden: true,
		}
		client := server.client(t)
		apply := func() error {
			return client.ApplyStatus(t.Context(), shop(),
				status.Compute(shop(), ingest.Outcome{Served: true}, status.Acks{}, "interceptor-0", noon()))
		}
		for second := range 59 {
			if err := apply(); err == nil || !strings.Contains(err.Error(),
				"allow the ServiceAccount to patch httpscaledobjects") {
				t.Fatalf("after %d s: %v, want the fix", second, err)
			}
			time.Sleep(time.Second) // synctest time
		}
		server.expect(t, "in a minute", "status", "schema", "annotation", "annotation")
		server.forbidden = false
		time.Sleep(time.Minute)
		if err := apply(); err != nil {
			t.Error(err)
		}
	})
}

// TestHangingSchemaDelaysNoOtherWrite blocks the second read of the schema.
func TestHangingSchemaDelaysNoOtherWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &schemaServer{declared: []string{"targetService", "targetWorkload"}}
		client := server.client(t)
		apply := func(name string) error {
			object := shop()
			object.Name = name
			is := status.Compute(object, ingest.Outcome{Served: true}, status.Acks{}, "interceptor-0", noon())
			return client.ApplyStatus(t.Context(), object, is)
		}
		if err := apply("shop"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute) // synctest time
		server.hang = make(chan struct{})
		server.requests = nil
		ended := make(chan error)
		go func() { ended <- apply("shop") }()
		synctest.Wait()
		server.expect(t, "the first write", "schema")
		other := make(chan error, 1)
		go func() { other <- apply("other") }()
		synctest.Wait()
		server.expect(t, "another write uses the known schema", "annotation", "status")
		close(server.hang)
		if err := errors.Join(<-ended, <-other); err != nil {
			t.Error(err)
		}
	})
}

// TestLeftoverAnnotation has a CRD with all fields of the status, and an annotation whose removal is forbidden.
func TestLeftoverAnnotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &schemaServer{
			declared: []string{"targetService", "targetWorkload", "conditions", "dataPlane"}, forbidden: true,
		}
		client, object := server.client(t), shop()
		object.Annotations = map[string]string{httpv1alpha1.AnnotationStatus: ""}
		object.Status = status.Compute(object, ingest.Outcome{Served: true}, status.Acks{}, "interceptor-0",
			noon())
		for minute := range 3 {
			if err := client.ApplyStatus(t.Context(), object, object.Status); err != nil {
				t.Errorf("after %d min: %v", minute, err)
			}
			server.expect(t, "a write and a removal", "status", "annotation")
			time.Sleep(time.Minute) // synctest time
		}
		log := server.log.String()
		fix := "kubectl annotate httpscaledobjects -A --all http.kedify.io/status-"
		if strings.Count(log, fix) != 1 || strings.Contains(log, "config/crd") {
			t.Errorf("the fix is not logged once: %s", log)
		}
	})
}
