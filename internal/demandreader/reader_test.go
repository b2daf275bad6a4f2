package demandreader_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kedify/argo-rollouts-plugin/internal/demand"
	"github.com/kedify/argo-rollouts-plugin/internal/demandreader"
	"github.com/kedify/argo-rollouts-plugin/internal/ir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var shop = ir.Key{Namespace: "apps", Name: "shop"}

// patience is how long a test waits for what must come.
const patience = 10 * time.Second

// interceptor serves reports that a test gives it.
type interceptor struct {
	server  *httptest.Server
	reports chan string // what is sent; "" ends the connection
}

// startInterceptor runs an interceptor until the test ends.
func startInterceptor(t *testing.T) *interceptor {
	t.Helper()
	i := &interceptor{reports: make(chan string)}
	i.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != demandreader.Path {
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
	t.Cleanup(i.server.Close)
	return i
}

// replica is the interceptor as a Reader knows it.
func (i *interceptor) replica(name string) demandreader.Replica {
	return demandreader.Replica{Name: name, Address: i.server.Listener.Addr().String()}
}

// report is a report of one object.
func report(t *testing.T, rate float64, heard ...string) string {
	t.Helper()
	text, err := json.Marshal(demand.Report{
		Fleets: map[ir.Fleet]demand.FleetReport{"apps": {Serving: []string{"1", "2"}, Heard: heard}},
		Objects: map[string]demand.ObjectReport{shop.String(): {
			Fleet: "apps", Metric: demand.RequestRate, Target: 5, RequestRate: rate,
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// start runs a Reader until the test ends.
func start(t *testing.T, replicas ...demandreader.Replica) *demandreader.Reader {
	t.Helper()
	reader := demandreader.New(slog.New(slog.DiscardHandler))
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

// await waits until the demand is a rate, or an error that says something.
func await(t *testing.T, reader *demandreader.Reader, rate float64, says string) {
	t.Helper()
	deadline := time.After(patience)
	for {
		updated := reader.Updated()
		value, err := reader.Demand(shop)
		switch {
		case says == "" && err == nil && value.RequestRate == rate:
			return
		case says != "" && errors.Is(err, demand.ErrUnknown) && strings.Contains(err.Error(), says):
			return
		}
		select {
		case <-updated:
		case <-deadline:
			t.Fatalf("waited in vain for %v %s: %+v, %v", rate, says, value, err)
		}
	}
}

func TestTheDemandIsThatOfAllReplicas(t *testing.T) {
	t.Parallel()
	a, b := startInterceptor(t), startInterceptor(t)
	reader := start(t, a.replica("a"), b.replica("b"))
	await(t, reader, 0, "no replica of the interceptor knows it; no answer from interceptor a, b")
	a.reports <- report(t, 10, "1")
	await(t, reader, 0, "proxy apps/2 sends no metrics; no answer from interceptor b")
	b.reports <- report(t, 30, "2")
	await(t, reader, 40, "")
	b.reports <- report(t, 50, "2")
	await(t, reader, 60, "")
	b.reports <- "" // It goes; the proxy finds the other one.
	await(t, reader, 0, "proxy apps/2 sends no metrics; no answer from interceptor b")
	a.reports <- report(t, 70, "1", "2")
	await(t, reader, 70, "")
	b.reports <- report(t, 0) // It is back.
	await(t, reader, 70, "")
	reader.SetReplicas(nil)
	await(t, reader, 0, "no replica of the interceptor knows it")
}

// TestWhatIsHeldIsOnTopOfTheRest: a report of nothing else changes nothing else.
func TestWhatIsHeldIsOnTopOfTheRest(t *testing.T) {
	t.Parallel()
	a := startInterceptor(t)
	reader := start(t, a.replica("a"))
	a.reports <- report(t, 10, "1", "2")
	await(t, reader, 10, "")
	updated := reader.Updated()
	a.reports <- `{"heldOnly": true, "held": {"apps/shop": {"waiting": 3}}}`
	<-updated
	if value, err := reader.Demand(shop); err != nil || value.Held != 3 || value.Concurrency != 3 || value.RequestRate != 10 {
		t.Errorf("%+v, %v", value, err)
	}
	updated = reader.Updated()
	a.reports <- report(t, 10, "1", "2")
	<-updated
	if value, err := reader.Demand(shop); err != nil || value.Held != 0 {
		t.Errorf("%+v, %v", value, err)
	}
}

// TestOnlyWhatIsNewIsTold has a replica tell changes: who waits for another object is not woken, but for what may be any object's.
func TestOnlyWhatIsNewIsTold(t *testing.T) {
	t.Parallel()
	a := startInterceptor(t)
	reader := start(t, a.replica("a"))
	a.reports <- report(t, 10, "1", "2")
	await(t, reader, 10, "")
	other := ir.Key{Namespace: "apps", Name: "other"}
	for _, c := range []struct {
		name, report string
		shop, others bool
		rate         float64
	}{
		{"nothing", `{"changesOnly": true}`, false, false, 10},
		{"the object", `{"changesOnly": true, "objects": {"apps/shop": {"fleet": "apps", "metric": "requestRate", "target": 5, "requestRate": 30}}}`, true, false, 30},
		{"what is held of it", `{"changesOnly": true, "held": {"apps/shop": {"waiting": 1}}}`, true, false, 30},
		{"nothing is held any more", `{"changesOnly": true}`, true, false, 30},
		{"the same, whole", report(t, 30, "1", "2"), false, false, 30},
		{"another rate, whole", report(t, 40, "1", "2"), true, false, 40},
		{"a proxy is not heard", `{"changesOnly": true, "fleets": {"apps": {"serving": ["1", "2"], "heard": ["1"]}}}`, true, true, -1},
	} {
		shops, others, updated := reader.Changed(shop), reader.Changed(other), reader.Updated()
		a.reports <- c.report
		<-updated
		if told := [2]bool{isClosed(shops), isClosed(others)}; told != [2]bool{c.shop, c.others} {
			t.Errorf("%s: told of the object and of another one: %v", c.name, told)
		}
		if value, err := reader.Demand(shop); (err == nil) != (c.rate >= 0) || err == nil && value.RequestRate != c.rate {
			t.Errorf("%s: %+v, %v", c.name, value, err)
		}
	}
	all := reader.Changed(other)
	a.reports <- ""
	<-all
}

// isClosed says whether a channel is closed.
func isClosed(channel <-chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}

// TestChangesToNothingAreNoReport: the first line of a connection is whole.
func TestChangesToNothingAreNoReport(t *testing.T) {
	t.Parallel()
	a := startInterceptor(t)
	reader := start(t, a.replica("a"))
	a.reports <- `{"changesOnly": true, "objects": {"apps/shop": {"fleet": "apps", "metric": "requestRate"}}}`
	await(t, reader, 0, "no answer from interceptor a")
	// It is asked anew; the connection that has ended may still take a report or two.
	for deadline := time.After(patience); ; {
		if value, err := reader.Demand(shop); err == nil && value.RequestRate == 10 {
			return
		}
		select {
		case a.reports <- report(t, 10, "1", "2"):
		case <-deadline:
			t.Fatal("the replica is not asked anew")
		}
	}
}

func TestASilentReplicaCountsNoMore(t *testing.T) {
	t.Parallel()
	a := startInterceptor(t)
	reader := start(t, a.replica("a"))
	a.reports <- report(t, 10, "1", "2")
	await(t, reader, 10, "")
	began := time.Now()
	await(t, reader, 0, "no answer from interceptor a")
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("taken for silent after %v", took)
	}
}

func TestAnAnswerThatIsNoReport(t *testing.T) {
	t.Parallel()
	a := startInterceptor(t)
	reader := start(t, a.replica("a"))
	a.reports <- report(t, 10, "1", "2")
	await(t, reader, 10, "")
	a.reports <- "not JSON"
	await(t, reader, 0, "no answer from interceptor a")
}
