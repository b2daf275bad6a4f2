package gather_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts/gather"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// fakeAPI is an API server with one Rollout. Its first watch sends one change and ends; later watches stay open.
type fakeAPI struct{ reads, watches atomic.Int32 }

// rollout returns the JSON of the Rollout at a weight.
func rollout(weight int) string {
	return fmt.Sprintf(`{"metadata":{"name":"web","namespace":"shop"},"spec":{"strategy":{"canary":{}}},`+
		`"status":{"canary":{"weights":{"canary":{"weight":%d},"stable":{"weight":%d}}}}}`, weight, 100-weight)
}

// RoundTrip implements http.RoundTripper.
func (f *fakeAPI) RoundTrip(request *http.Request) (*http.Response, error) {
	code, body := http.StatusNotFound, io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","reason":"NotFound","code":404}`))
	switch path := request.URL.Path; {
	case strings.HasSuffix(path, "/rollouts/web"):
		code, body = http.StatusOK, io.NopCloser(strings.NewReader(rollout(int(f.reads.Add(1)))))
	case strings.HasSuffix(path, "/rollouts") && request.URL.Query().Get("watch") == "true":
		code = http.StatusOK
		if f.watches.Add(1) == 1 {
			body = io.NopCloser(strings.NewReader(`{"type":"MODIFIED","object":` + rollout(50) + `}`))
			break
		}
		reader, writer := io.Pipe()
		context.AfterFunc(request.Context(), func() { writer.Close() })
		body = reader
	}
	header := http.Header{"Content-Type": []string{"application/json"}}
	return &http.Response{StatusCode: code, Header: header, Body: body, Request: request}, nil
}

// TestWatchContinuesAfterAWatchHasEnded: everything is read again before the next watch, so no change is missed.
func TestWatchContinuesAfterAWatchHasEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config := &rest.Config{Host: "https://api.test", Transport: new(fakeAPI), QPS: -1}
		client := kube.NewClient(func() (*rest.Config, error) { return config, nil })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var weights []int32
		err := gather.New(client, "shop").Watch(ctx, types.NamespacedName{Namespace: "shop", Name: "web"},
			func(cluster *facts.Facts) error {
				weights = append(weights, cluster.Rollouts[0].Status.Canary.Weights.Canary.Weight)
				if len(weights) == 3 {
					cancel()
				}
				return nil
			})
		if err != nil {
			t.Error(err)
		}
		// The first reading, the change, the second reading.
		if diff := cmp.Diff([]int32{1, 50, 2}, weights); diff != "" {
			t.Errorf("weights (-want +got):\n%s", diff)
		}
	})
}
