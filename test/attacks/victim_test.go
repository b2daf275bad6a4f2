package attacks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/coldstart"
	"github.com/kedify/argo-rollouts-plugin/test/kit/traffic"
)

// errAnswer means that the answer to a request is not that of the app.
var errAnswer = errors.New("unexpected answer")

// The victim's apps: one with a canary, whose Pods belong to the next one, one that wakes, and one that stays at zero.
const canaryApp, wokenApp, sleepingApp = 0, 2, 3

// visitor sends requests to the victim, one after the other.
type visitor struct {
	cancel context.CancelFunc
	done   chan struct{}

	served int
	failed []string
}

// visit begins to send requests.
func (s *scene) visit(t *testing.T) *visitor {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	v := &visitor{cancel: cancel, done: make(chan struct{})}
	client := &http.Client{Transport: new(http.Transport), Timeout: await.Patience()}
	go func() {
		defer close(v.done)
		defer client.CloseIdleConnections()
		for ctx.Err() == nil {
			if err := request(ctx, client); err == nil {
				v.served++
			} else if ctx.Err() == nil {
				v.failed = append(v.failed, err.Error())
			}
		}
	}()
	return v
}

// request sends one request to the app with a canary.
func request(ctx context.Context, client *http.Client) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+coldstart.Proxy, http.NoBody)
	if err != nil {
		return err
	}
	request.Host = coldstart.AppHost(canaryApp)
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && (response.StatusCode != http.StatusOK || string(body) != coldstart.AppBody) {
		err = fmt.Errorf("%w: %d %.100s", errAnswer, response.StatusCode, body)
	}
	return err
}

// stop ends the requests, none of which may have failed.
func (v *visitor) stop(t *testing.T) {
	t.Helper()
	v.cancel()
	<-v.done
	if len(v.failed) > 0 || v.served == 0 {
		t.Errorf("%d requests of the victim were served and %d failed: %.2000s", v.served, len(v.failed),
			strings.Join(v.failed, "; "))
	}
	t.Logf("%d requests of the victim were served", v.served)
}

// changeWeight changes the weight of the victim's canary, and waits until its proxy has acknowledged it.
func (s *scene) changeWeight(t *testing.T) {
	t.Helper()
	s.weight = s.weight%50 + 1
	text := split.Format([]split.Backend{
		{Service: coldstart.AppName(canaryApp), Weight: uint32(100 - s.weight)},
		{Service: coldstart.AppName(canaryApp + 1), Weight: uint32(s.weight)},
	})
	path := objectsPath(coldstart.Namespace) + "/" + coldstart.AppName(canaryApp)
	change := map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{httpv1alpha1.AnnotationWeightedBackends: text},
	}}
	if err := apiserver.Patch(t.Context(), s.Admin, path, "test", change); err != nil {
		t.Fatal(err)
	}
	var status httpv1alpha1.HTTPScaledObjectStatus
	await.Described(t, "the proxy acknowledges the weight", func() bool {
		object := new(httpv1alpha1.HTTPScaledObject)
		err := apiserver.Get(t.Context(), s.Admin, path, object)
		status = object.Status
		return err == nil && status.DataPlane != nil && status.DataPlane.WeightedBackends == text &&
			status.DataPlane.Effective
	}, func() string { return fmt.Sprintf("%+v", status.DataPlane) })
}

// counted returns the counted requests to the app with a canary.
func (s *scene) counted(t *testing.T) int {
	t.Helper()
	count, err := s.replica.Metric(t.Context(), fmt.Sprintf(
		`kedify_backend_requests_total{backend=%q,httpscaledobject=%q,object_namespace=%q}`, coldstart.AppName(canaryApp),
		coldstart.AppName(canaryApp), coldstart.Namespace))
	if err != nil {
		return 0 // There is none yet.
	}
	return count
}

// awaitDemand waits until further requests are counted.
func (s *scene) awaitDemand(t *testing.T) {
	t.Helper()
	before := s.counted(t)
	await.Described(t, "requests of the victim are counted", func() bool { return s.counted(t) > before+10 },
		func() string { return fmt.Sprintf("%d after %d", s.counted(t), before) })
}

// queued returns the queued requests to an app of the victim.
func (s *scene) queued(t *testing.T, app int) int {
	t.Helper()
	answer, err := traffic.Get(t.Context(), "http://"+s.at(adminPort)+"/queue", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	var counts map[string]struct{ Concurrency int }
	if err := json.Unmarshal(answer.Body, &counts); err != nil {
		t.Fatal(err)
	}
	return counts[coldstart.Namespace+"/"+coldstart.AppName(app)].Concurrency
}

// wake sends a request to an app without a Pod, which is served once the app has one.
func (s *scene) wake(t *testing.T) {
	t.Helper()
	await.True(t, "a request of the victim waits", func() bool {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		waiting := coldstart.Send(ctx, coldstart.Proxy, wokenApp)
		await.True(t, "a request is answered or waits", func() bool {
			return len(waiting) > 0 || s.queued(t, wokenApp) > 0
		})
		if len(waiting) > 0 {
			return false // The proxy still has the Pod of the last time.
		}
		if err := s.SetReady(t.Context(), wokenApp, true); err != nil {
			t.Fatal(err)
		}
		if got := await.Receive(t, "the answer of the app", waiting); got.Status != http.StatusOK || !got.IsFromApp {
			t.Errorf("a request that woke the victim's app: %+v", got)
		}
		return true
	})
	if err := s.SetReady(t.Context(), wokenApp, false); err != nil {
		t.Fatal(err)
	}
}
