package main

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
)

// TestScrape: a scrape has the metrics of each running Pod, also if another one does not answer.
func TestScrape(t *testing.T) {
	const pods = "/api/v1/namespaces/keda/pods"
	answers := map[string]string{
		pods: `{"items": [{"metadata": {"name": "a"}, "status": {"phase": "Running"}}, {"metadata": {"name": "b"}, "status": {"phase":
			"Pending"}}, {"metadata": {"name": "c"}, "status": {"phase": "Running"}}, {"metadata": {"name": "d"}, "status": {"phase": "Running"}}]}`,
		pods + "/a:2223/proxy/metrics": "kedify_x{y=\"z\"} 1\nother 2\n",
		pods + "/b:2223/proxy/metrics": "kedify_x 3\n",
		pods + "/d:2223/proxy/metrics": "kedify_x 4\n",
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	source := target{proxy: new(exec.Cmd), address: strings.TrimPrefix(server.URL, "http://")}
	got, err := source.scrape(t.Context())
	want := map[string]float64{`kedify_x{y="z",pod="a"}`: 1, `kedify_x{pod="d"}`: 4}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("samples %v, %v, want %v", got, err, want)
	}
	delete(answers, pods)
	if got, err := source.scrape(t.Context()); err == nil {
		t.Errorf("without the list of Pods: %v", got)
	}
}
