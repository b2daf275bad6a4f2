package try_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/config"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/try"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
)

// stage is the progress of a fake canary.
type stage int

const (
	atRest stage = iota
	atStep
	promoted
	aborted
)

// fakeAPI is an API server whose controllers act immediately. It calls onRequest with the number of requests so far.
type fakeAPI struct {
	onRequest func(int)
	percent   int // percentage of requests that go to the canary at its step

	mu             sync.Mutex
	requests       int
	labels         json.RawMessage // of the namespace; nil if it does not exist
	isDeleting     bool            // whether the namespace is being deleted
	stage          stage
	rejectedSuffix string // requests with this path suffix are rejected
}

// RoundTrip implements http.RoundTripper.
func (f *fakeAPI) RoundTrip(request *http.Request) (*http.Response, error) {
	f.mu.Lock()
	f.requests++
	count := f.requests
	f.mu.Unlock()
	if f.onRequest != nil {
		f.onRequest(count)
	}
	if request.Method != http.MethodPost && request.Context().Err() != nil {
		return nil, request.Context().Err()
	}
	code, body := f.respond(request)
	header := http.Header{"Content-Type": []string{"application/json"}}
	return &http.Response{StatusCode: code, Header: header, Body: body, Request: request}, nil
}

// respond returns the response to a request.
func (f *fakeAPI) respond(request *http.Request) (int, io.ReadCloser) {
	f.mu.Lock()
	defer f.mu.Unlock()
	text := func(body string) (int, io.ReadCloser) { return http.StatusOK, io.NopCloser(strings.NewReader(body)) }
	missing := func() (int, io.ReadCloser) {
		return http.StatusNotFound,
			io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","reason":"NotFound","code":404}`))
	}
	const inside = "/namespaces/try-1/"
	path := request.URL.Path
	switch {
	case f.rejectedSuffix != "" && strings.HasSuffix(path, f.rejectedSuffix):
		return http.StatusForbidden,
			io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","reason":"Forbidden","code":403,"message":"no"}`))
	case request.Method == http.MethodPost:
		var namespace struct {
			Metadata struct {
				Labels json.RawMessage `json:"labels"`
			} `json:"metadata"`
		}
		if err := json.NewDecoder(request.Body).Decode(&namespace); err != nil {
			return http.StatusBadRequest, http.NoBody
		}
		f.labels = namespace.Metadata.Labels
		return text("{}")
	case path == "/api/v1/namespaces/try-1" && request.Method == http.MethodDelete:
		f.isDeleting = true
		return text("{}")
	case path == "/api/v1/namespaces/try-1":
		if f.isDeleting {
			f.labels = nil // deleted after it was read once
		}
		if f.labels == nil {
			return missing()
		}
		return text(`{"metadata":{"uid":"1","labels":` + string(f.labels) + `}}`)
	case f.labels == nil, request.Method == http.MethodGet && strings.Contains(path, "/services/"):
		return missing()
	case request.Method == http.MethodPatch:
		f.change(request)
		return text("{}")
	case strings.HasSuffix(path, inside+"rollouts/try"):
		return text(f.rollout())
	case strings.HasSuffix(path, inside+"httpscaledobjects/try"):
		return text(f.object())
	case strings.HasSuffix(path, inside+"pods/load"):
		return text(`{"status":{"phase":"Running"}}`)
	case strings.HasSuffix(path, inside+"pods/load/log"):
		return http.StatusOK, f.log(request.Context())
	default:
		return text(`{"items":[]}`)
	}
}

// change applies a patch of the Rollout.
func (f *fakeAPI) change(request *http.Request) {
	body, _ := io.ReadAll(request.Body)
	switch path := request.URL.Path; {
	case strings.HasSuffix(path, "rollouts/try/status") && strings.Contains(string(body), "abort"):
		f.stage = aborted
	case strings.HasSuffix(path, "rollouts/try/status"):
		f.stage = promoted
	case strings.HasSuffix(path, "rollouts/try") && strings.Contains(string(body), "--color=green"+`"]`):
		f.stage = atStep
	}
}

// rollout returns the Rollout at its stage.
func (f *fakeAPI) rollout() string {
	status := map[stage]string{
		atRest:   `"phase":"Healthy","stableRS":"1","currentPodHash":"1"`,
		atStep:   `"phase":"Paused","stableRS":"1","currentPodHash":"2","pauseConditions":[{"reason":"CanaryPauseStep"}],"canary":{"weights":{"canary":{"weight":30},"stable":{"weight":70}}}`,
		promoted: `"phase":"Healthy","stableRS":"2","currentPodHash":"2"`,
		aborted:  `"phase":"Degraded","abort":true,"stableRS":"1","currentPodHash":"2"`,
	}[f.stage]
	return `{"metadata":{"name":"try","namespace":"try-1"},"spec":{"replicas":2,"strategy":{"canary":{"stableService":"try-stable","canaryService":"try-canary",` +
		`"trafficRouting":{"plugins":{"kedify/http":{"httpScaledObjectName":"try"}}},"steps":[{"setWeight":30},{"pause":{}}]}}},` +
		`"status":{"availableReplicas":2,"replicas":2,` + status + `}}`
}

// object returns the HTTPScaledObject at its stage, with the report of one proxy.
func (f *fakeAPI) object() string {
	weights := ""
	if f.stage == atStep {
		weights = split.Format([]split.Backend{
			{Service: "try-stable", Weight: 70},
			{Service: "try-canary", Weight: 30},
		})
	}
	return fmt.Sprintf(`{"metadata":{"name":"try","namespace":"try-1","annotations":{"http.kedify.io/weighted-backends":%q}},"spec":{"scaleTargetRef":{"service":"try-stable"}},`+
		`"status":{"dataPlane":{"annotationHash":%q,"effective":true,"proxies":{"ready":1,"acked":1}}}}`, weights, split.Hash(weights, ""))
}

// log returns the output of the load generator: a line every 10 ms.
func (f *fakeAPI) log(ctx context.Context) io.ReadCloser {
	reader, writer := io.Pipe()
	go func() {
		defer writer.Close()
		for number := 0; ctx.Err() == nil; number++ {
			f.mu.Lock()
			color := "blue"
			if f.stage == promoted || f.stage == atStep && number%100 < f.percent {
				color = "green"
			}
			f.mu.Unlock()
			fmt.Fprintln(writer, number, time.Now().UnixMilli(), 300, color)
			time.Sleep(10 * time.Millisecond) // fake time of the synctest bubble
		}
	}()
	context.AfterFunc(ctx, func() { reader.Close() })
	return reader
}

// runTrial runs a trial on a fake.
func runTrial(ctx context.Context, f *fakeAPI, change func(*try.Setup)) (result try.Result, lines []string, err error) {
	parameters := setup(facts.HTTPRouter)
	if change != nil {
		change(&parameters)
	}
	restConfig := &rest.Config{Host: "https://api.test", Transport: f, QPS: -1}
	result, err = try.New(kube.NewClient(func() (*rest.Config, error) { return restConfig, nil }), parameters,
		config.Files,
		func(line string) { lines = append(lines, line) }).Run(ctx)
	return result, lines, err
}

func TestPassingCanary(t *testing.T) {
	t.Parallel()
	for end, share := range map[string]int{"promoted": 30, "aborted": 31} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeAPI{percent: share}
			result, lines, err := runTrial(t.Context(), f, func(s *try.Setup) { s.Abort = end == "aborted" })
			if err != nil || !result.Passed() || result.End != end || result.Measured < 100 ||
				result.Requests < result.Measured || f.labels != nil {
				t.Errorf("%s: %+v, %v; output %q", end, result, err, lines)
			}
			synctest.Wait()
		})
	}
}

func TestWrongSplit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeAPI{percent: 90}
		if result, _, err := runTrial(t.Context(), f, nil); err != nil || result.Agrees || result.Passed() ||
			!result.Removed || f.labels != nil {
			t.Errorf("%+v, %v", result, err)
		}
		synctest.Wait()
	})
}

// TestInterruptAtEachRequest: the namespace is always deleted, and no other one.
func TestInterruptAtEachRequest(t *testing.T) {
	t.Parallel()
	last := 0
	synctest.Test(t, func(t *testing.T) {
		f := &fakeAPI{percent: 30, onRequest: func(count int) { last = count }}
		if _, _, err := runTrial(t.Context(), f, nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
	})
	if last < 20 {
		t.Fatalf("only %d requests", last)
	}
	for at := 1; at <= last; at++ {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			interrupt := errors.New("interrupt signal received")
			f := &fakeAPI{percent: 30, onRequest: func(count int) {
				if count == at {
					cancel(interrupt)
				}
			}}
			result, lines, err := runTrial(ctx, f, nil)
			// After the end of the canary there is nothing left to interrupt.
			if err != nil && !errors.Is(err, interrupt) {
				t.Errorf("interrupted at request %d of %d: %v", at, last, err)
			}
			if f.labels != nil || !result.Removed {
				t.Errorf("interrupted at request %d of %d: the namespace is left: %v, %q", at, last, err, lines)
			}
			synctest.Wait()
		})
	}
}

// TestOtherNamespaceIsKept: a namespace of another user is not deleted if the creation fails.
func TestOtherNamespaceIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeAPI{labels: json.RawMessage(`{"http.kedify.io/try":"another"}`), rejectedSuffix: "/api/v1/namespaces"}
		if _, _, err := runTrial(t.Context(), f, nil); err == nil || f.labels == nil || f.isDeleting {
			t.Errorf("error %v; namespace deleted: %v", err, f.isDeleting)
		}
		synctest.Wait()
	})
}

// TestRejectedWriteIsReported: the error names the object, and the objects that were created are deleted.
func TestRejectedWriteIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeAPI{rejectedSuffix: "/httpscaledobjects/try"}
		_, _, err := runTrial(t.Context(), f, nil)
		if err == nil || !strings.Contains(err.Error(), "HTTPScaledObject try-1/try: ") || f.labels != nil {
			t.Errorf("error %v", err)
		}
		synctest.Wait()
	})
}
