package demandclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/endpoints"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/demandclient"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/leak"
	"github.com/kedify/argo-rollouts-plugin/test/kit/memhttp"
)

func TestMain(m *testing.M) { leak.Main(m) }

var shop = model.Key{Namespace: "apps", Name: "shop"}

// interceptor serves the reports of a test.
type interceptor struct {
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	reports chan string // what is sent; "" ends the connection
}

// startInterceptor runs an interceptor until the test ends.
func startInterceptor(t *testing.T) *interceptor {
	t.Helper()
	i := &interceptor{reports: make(chan string)}
	i.dial = memhttp.Serve(t, memhttp.Server(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != demandclient.Path {
			http.NotFound(w, r)
			return
		}
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case text := <-i.reports:
				if text == "" {
					return
				}
				_, _ = fmt.Fprintln(w, text)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}))
	return i
}

// report is a report of one object.
func report(t *testing.T, rate float64, heard ...string) string {
	t.Helper()
	text, err := json.Marshal(metrics.Report{
		Fleets: map[model.Fleet]metrics.FleetReport{"apps": {Serving: []string{"1", "2"}, Reporting: heard}},
		Objects: map[string]metrics.ObjectReport{shop.String(): {
			Fleet: "apps", Metric: metrics.RequestRate, Target: 5, RequestRate: rate,
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// start runs a Reader of interceptors, which have the names a, b and so on, until the test ends.
func start(t *testing.T, interceptors ...*interceptor) *demandclient.Reader {
	t.Helper()
	reader := demandclient.New(nil, slog.New(slog.DiscardHandler))
	names := "ab"
	reader.DialWith(func(ctx context.Context, network, address string) (net.Conn, error) {
		return interceptors[strings.Index(names, address[:1])].dial(ctx, network, address)
	})
	var replicas []endpoints.Pod
	for i := range interceptors {
		replicas = append(replicas, endpoints.Pod{Name: names[i : i+1], Address: names[i:i+1] + ":9090"})
	}
	reader.SetReplicas(replicas)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { reader.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return reader
}

// awaitDemand waits until the demand is a rate, or an error that contains a text.
func awaitDemand(t *testing.T, reader *demandclient.Reader, rate float64, wantErr string) {
	t.Helper()
	var value metrics.Value
	var err error
	await.Described(t, fmt.Sprintf("a demand of %v, or the error %q", rate, wantErr), func() bool {
		value, err = reader.Demand(shop)
		if wantErr != "" {
			return errors.Is(err, metrics.ErrUnknown) && strings.Contains(err.Error(), wantErr)
		}
		return err == nil && value.RequestRate == rate
	}, func() string { return fmt.Sprintf("%+v, %v", value, err) })
}

func TestDemandSumsAllReplicas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := startInterceptor(t), startInterceptor(t)
		reader := start(t, a, b)
		awaitDemand(t, reader, 0, "no interceptor has reported it; no report from interceptor a, b")
		a.reports <- report(t, 10, "1")
		awaitDemand(t, reader, 0, "proxy apps/2 sends no metrics; no report from interceptor b")
		b.reports <- report(t, 30, "2")
		awaitDemand(t, reader, 40, "")
		b.reports <- report(t, 50, "2")
		awaitDemand(t, reader, 60, "")
		b.reports <- "" // It ends; the proxy connects to the other one.
		awaitDemand(t, reader, 0, "proxy apps/2 sends no metrics; no report from interceptor b")
		a.reports <- report(t, 70, "1", "2")
		awaitDemand(t, reader, 70, "")
		b.reports <- report(t, 0) // It is back.
		awaitDemand(t, reader, 70, "")
		reader.SetReplicas(nil)
		awaitDemand(t, reader, 0, "no interceptor has reported it")
	})
}

// TestQueuedOnlyReports checks that a report of queued requests alone changes nothing else.
func TestQueuedOnlyReports(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := startInterceptor(t)
		reader := start(t, a)
		a.reports <- report(t, 10, "1", "2")
		awaitDemand(t, reader, 10, "")
		updated := reader.Updated()
		a.reports <- `{"heldOnly": true, "held": {"apps/shop": {"waiting": 3}}}`
		<-updated
		if value, err := reader.Demand(shop); err != nil || value.Queued != 3 || value.Concurrency != 3 ||
			value.RequestRate != 10 {
			t.Errorf("%+v, %v", value, err)
		}
		updated = reader.Updated()
		a.reports <- report(t, 10, "1", "2")
		<-updated
		if value, err := reader.Demand(shop); err != nil || value.Queued != 0 {
			t.Errorf("%+v, %v", value, err)
		}
	})
}

// TestChangedPerObject checks that a report of changes notifies only the waiters of its objects, unless it may affect
// any object.
func TestChangedPerObject(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := startInterceptor(t)
		reader := start(t, a)
		a.reports <- report(t, 10, "1", "2")
		awaitDemand(t, reader, 10, "")
		other := model.Key{Namespace: "apps", Name: "other"}
		for _, c := range []struct {
			name, report string
			shop, others bool
			rate         float64
		}{
			{"nothing", `{"changesOnly": true}`, false, false, 10},
			{
				"the object",
				`{"changesOnly": true, "objects": {"apps/shop": {"fleet": "apps", "metric": "requestRate", "target": 5, "requestRate": 30}}}`,
				true, false, 30,
			},
			{"its queued requests", `{"changesOnly": true, "held": {"apps/shop": {"waiting": 1}}}`, true, false, 30},
			{"nothing is queued any more", `{"changesOnly": true}`, true, false, 30},
			{"the same, whole", report(t, 30, "1", "2"), false, false, 30},
			{"another rate, whole", report(t, 40, "1", "2"), true, false, 40},
			{
				"a proxy sends no metrics", `{"changesOnly": true, "fleets": {"apps": {"serving": ["1", "2"], "heard": ["1"]}}}`,
				true, true, -1,
			},
		} {
			shops, others, updated := reader.Changed(shop), reader.Changed(other), reader.Updated()
			a.reports <- c.report
			<-updated
			if got := [2]bool{isClosed(shops), isClosed(others)}; got != [2]bool{c.shop, c.others} {
				t.Errorf("%s: notified of the object and of another one: %v", c.name, got)
			}
			if value, err := reader.Demand(shop); (err == nil) != (c.rate >= 0) || err == nil && value.RequestRate != c.rate {
				t.Errorf("%s: %+v, %v", c.name, value, err)
			}
		}
		all := reader.Changed(other)
		a.reports <- ""
		<-all
	})
}

// isClosed wantErr whether a channel is closed.
func isClosed(channel <-chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}

// TestChangesWithoutAReportBefore checks that the first line of a connection has to be a whole report.
func TestChangesWithoutAReportBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := startInterceptor(t)
		reader := start(t, a)
		a.reports <- `{"changesOnly": true, "objects": {"apps/shop": {"fleet": "apps", "metric": "requestRate"}}}`
		awaitDemand(t, reader, 0, "no report from interceptor a")
		// The Reader reconnects; the connection that has ended may still accept a report or two.
		await.True(t, "the Reader to reconnect", func() bool {
			select {
			case a.reports <- report(t, 10, "1", "2"):
			default:
			}
			value, err := reader.Demand(shop)
			return err == nil && value.RequestRate == 10
		})
	})
}

func TestSilentReplica(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := startInterceptor(t)
		reader := start(t, a)
		a.reports <- report(t, 10, "1", "2")
		synctest.Wait()
		awaitDemand(t, reader, 10, "")
		time.Sleep(demandclient.Silence - 1) // The clock is synctest's, here and below.
		synctest.Wait()
		if value, err := reader.Demand(shop); err != nil || value.RequestRate != 10 {
			t.Errorf("before the end of the silence: %+v, %v", value, err)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if value, err := reader.Demand(shop); !errors.Is(err, metrics.ErrUnknown) ||
			!strings.Contains(err.Error(), "no report from interceptor a") {
			t.Errorf("after the silence: %+v, %v", value, err)
		}
	})
}

func TestInvalidReport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := startInterceptor(t)
		reader := start(t, a)
		a.reports <- report(t, 10, "1", "2")
		awaitDemand(t, reader, 10, "")
		a.reports <- "not JSON"
		awaitDemand(t, reader, 0, "no report from interceptor a")
	})
}
