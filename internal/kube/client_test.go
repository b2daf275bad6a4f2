package kube_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

func TestClientReturnsAPIServerErrorsWithoutRetry(t *testing.T) {
	t.Parallel()
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		switch r.URL.Path {
		case "/api/v1/busy":
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		case "/api/v1/forbidden":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure",` +
				`"message":"these are its words","reason":"Forbidden","code":403}`))
		default:
			_, _ = w.Write([]byte(`{"metadata":{"name":"` + r.Method + ` ` + r.Header.Get("Content-Type") + ` ` +
				r.URL.RawQuery + `"}}`))
		}
	}))
	t.Cleanup(server.Close)
	client := kube.NewClient(func() (*rest.Config, error) { return &rest.Config{Host: server.URL, QPS: -1}, nil })
	tests := map[string]struct {
		do    func() error
		check func(error) bool
	}{
		"a Retry-After is the caller's business": {func() error {
			return client.Get(t.Context(), nil, "api", "v1",
				"busy")
		}, apierrors.IsTooManyRequests},
		"a Status": {
			func() error { return client.Get(t.Context(), nil, "api", "v1", "forbidden") },
			func(err error) bool { return apierrors.IsForbidden(err) && err.Error() == "these are its words" },
		},
		"a Status of a stream": {func() error {
			_, err := client.Stream(t.Context(), kube.Request{Path: []string{"api", "v1", "forbidden"}})
			return err
		}, apierrors.IsForbidden},
		"method, notation and query": {func() error {
			body, err := client.Do(t.Context(), kube.Request{
				Verb: http.MethodPut, Path: []string{"api", "v1", "object"},
				Query: map[string]string{"fieldManager": "me"}, Body: []byte("{}"),
			})
			if string(body) != `{"metadata":{"name":"PUT application/json fieldManager=me"}}` {
				t.Errorf("the answer is %s", body)
			}
			return err
		}, func(err error) bool { return err == nil }},
	}
	for name, test := range tests { // not in parallel, because requests are counted
		before := asked
		if err := test.do(); !test.check(err) || asked != before+1 {
			t.Errorf("%s: %v after %d requests", name, err, asked-before)
		}
	}
}

func TestAClientConnectsAsSoonAsItCan(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_,
			_ = w.Write([]byte("{}"))
	}))
	t.Cleanup(server.Close)
	missing, looked := errors.New("no kubeconfig yet"), 0
	client := kube.NewClient(func() (*rest.Config, error) {
		if looked++; looked == 1 {
			return nil, missing
		}
		return &rest.Config{Host: server.URL, QPS: -1}, nil
	})
	for _, want := range []error{missing, nil, nil} {
		if err := client.Get(t.Context(), &struct{}{}, "api", "v1", "object"); !errors.Is(err, want) {
			t.Errorf("error is %v, want %v", err, want)
		}
	}
	if looked != 2 {
		t.Errorf("the configuration was loaded %d times, want 2: a failure and a success", looked)
	}
}
