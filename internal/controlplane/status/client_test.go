package status_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
)

// request is a request that the API server received.
type request struct {
	Method, Path, Query, ContentType string
	Body                             map[string]any
}

// serve starts an API server that answers every request with code. It returns a Client and the received requests.
func serve(t *testing.T, code int) (status.Client, *[]request) {
	t.Helper()
	var asked []request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		var body map[string]any // nil for the binary encoding of built-in kinds
		if r.Header.Get("Content-Type") != runtime.ContentTypeProtobuf {
			if err := json.Unmarshal(text, &body); err != nil {
				t.Errorf("the body is not JSON: %v: %s", err, text)
			}
		}
		asked = append(asked, request{r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Get("Content-Type"), body})
		if code < http.StatusMultipleChoices { // The response is the written object.
			w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
			w.WriteHeader(code)
			_, _ = w.Write(text)
			return
		}
		http.Error(w, "no", code)
	}))
	t.Cleanup(server.Close)

	scheme := runtime.NewScheme()
	if err := errors.Join(httpv1alpha1.AddToScheme(scheme), eventsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	client := func(group schema.GroupVersion) *rest.RESTClient {
		config := &rest.Config{Host: server.URL, APIPath: "/apis"}
		config.GroupVersion = &group
		config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
		made, err := rest.RESTClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	logger := slog.New(slog.DiscardHandler)
	return status.NewClient(client(httpv1alpha1.SchemeGroupVersion), client(httpv1beta1.SchemeGroupVersion),
			client(eventsv1.SchemeGroupVersion), logger),
		&asked
}

func TestApplyStatusRequest(t *testing.T) {
	client, asked := serve(t, http.StatusOK)
	object := shop()
	object.Status.Conditions = []metav1.Condition{{Type: "Audited", Status: "True", Reason: "ByHand"}}
	taken := status.Acks{Proxies: httpv1alpha1.ProxyCounts{Ready: 2, Acked: 2}, AsDesired: true}
	if err := client.ApplyStatus(t.Context(), object,
		status.Compute(object, ingest.Outcome{Served: true}, taken, "interceptor-0", noon())); err != nil {
		t.Fatal(err)
	}
	own := func(kind, reason, message string) map[string]any {
		return map[string]any{
			"type": kind, "status": "True", "reason": reason, "message": message,
			"observedGeneration": 3.0, "lastTransitionTime": "2026-01-02T12:00:00Z",
		}
	}
	want := []request{{
		Method: http.MethodPatch, Path: "/apis/http.keda.sh/v1alpha1/namespaces/apps/httpscaledobjects/shop/status",
		Query: "fieldManager=kedify-http-interceptor&force=true", ContentType: "application/apply-patch+yaml",
		Body: map[string]any{
			"apiVersion": "http.keda.sh/v1alpha1", "kind": "HTTPScaledObject",
			"metadata": map[string]any{"namespace": "apps", "name": "shop", "uid": "u1"},
			"status": map[string]any{
				"targetWorkload": "argoproj.io/v1alpha1/Rollout/shop", "targetService": "shop-stable:80",
				"conditions": []any{
					own("Accepted", "Accepted", "Accepted; all referenced Services were resolved."),
					own("Ready", "Serving", "The route is published to the proxies."),
					own("Programmed", "Programmed", "Every Ready proxy has acknowledged the object."),
				},
				"dataPlane": map[string]any{
					"annotationHash": "", "proxies": map[string]any{"ready": 2.0, "acked": 2.0}, "effective": true,
					"reportedBy": "interceptor-0", "resourceVersion": "7",
				},
			},
		},
	}}
	if diff := cmp.Diff(want, *asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// TestApplyStatusOfInterceptorRoute: the schema has a field for the conditions only, and the report is written first.
func TestApplyStatusOfInterceptorRoute(t *testing.T) {
	client, asked := serve(t, http.StatusOK)
	acks := status.Acks{Proxies: httpv1alpha1.ProxyCounts{Ready: 2, Acked: 2}, AsDesired: true}
	object := convertedShop()
	computed := status.Compute(object, ingest.Outcome{Served: true}, acks, "interceptor-0", noon())
	if err := client.ApplyStatus(t.Context(), object, computed); err != nil {
		t.Fatal(err)
	}
	const path = "/apis/http.keda.sh/v1beta1/namespaces/apps/interceptorroutes/shop"
	if len(*asked) != 2 || (*asked)[0].Path != path || (*asked)[1].Path != path+"/status" {
		t.Fatalf("requests %+v", *asked)
	}
	annotations := (*asked)[0].Body["metadata"].(map[string]any)["annotations"].(map[string]any)
	const report = `{"dataPlane":{"annotationHash":"","effective":true,"proxies":{"acked":2,"ready":2},` +
		`"reportedBy":"interceptor-0","resourceVersion":"7"},"uid":"u1"}`
	if diff := cmp.Diff(map[string]any{httpv1alpha1.AnnotationStatus: report}, annotations); diff != "" {
		t.Errorf("the annotation (-want +got):\n%s", diff)
	}
	written := (*asked)[1].Body["status"].(map[string]any)
	if conditions, _ := written["conditions"].([]any); len(written) != 1 || len(conditions) != 3 {
		t.Errorf("the status is %v, want only three conditions", written)
	}
	if kind := (*asked)[1].Body["kind"]; kind != httpv1beta1.Kind {
		t.Errorf("the kind is %v", kind)
	}
}

func TestClientErrors(t *testing.T) {
	apply := func(ctx context.Context, client status.Client) error {
		return client.ApplyStatus(ctx, shop(), httpv1alpha1.HTTPScaledObjectStatus{})
	}
	create := func(ctx context.Context, client status.Client) error {
		return client.CreateEvent(ctx, &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{
			Namespace: "apps",
			Name:      "shop.1",
		}})
	}
	tests := []struct {
		name       string
		code       int
		do         func(context.Context, status.Client) error
		fails      bool
		isGone     bool
		wantMethod string
	}{
		{"an object that is deleted", http.StatusNotFound, apply, true, true, http.MethodPatch},
		{"another object of the same name", http.StatusConflict, apply, true, true, http.MethodPatch},
		{"no permission", http.StatusForbidden, apply, true, false, http.MethodPatch},
		{"an event", http.StatusCreated, create, false, false, http.MethodPost},
		{"an event that exists", http.StatusConflict, create, false, false, http.MethodPost},
		{"an event without permission", http.StatusForbidden, create, true, false, http.MethodPost},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			client, asked := serve(t, test.code)
			err := test.do(t.Context(), client)
			if (err != nil) != test.fails || errors.Is(err, status.ErrGone) != test.isGone {
				t.Errorf("error %v, want one: %v, of ErrGone: %v", err, test.fails, test.isGone)
			}
			if len(*asked) != 1 || (*asked)[0].Method != test.wantMethod {
				t.Errorf("requests %v, want one %s", *asked, test.wantMethod)
			}
		})
	}
}
