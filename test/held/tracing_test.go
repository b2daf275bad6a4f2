package held

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/tracing"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/coldstart"
	"github.com/kedify/argo-rollouts-plugin/test/kit/traffic"
)

// clientTrace and clientSpan are the trace and the span of the client.
const clientTrace, clientSpan = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"

// newTracedEnvironment starts a collector, an interceptor that sends spans to it, and a proxy.
func newTracedEnvironment(t *testing.T) (environment, *coldstart.Replica, *collector) {
	t.Helper()
	s, spans := newEnvironment(t, never), startCollector(t)
	s.Arguments = append(s.Arguments, "--tracing-endpoint=http://"+collectorAddress)
	interceptor := s.replica(0)
	s.proxy()
	return s, interceptor, spans
}

// TestTraceOfAQueuedRequest sends a request with a trace context to an app at zero. A real collector receives its trace:
// the spans of the proxy, and below them the span of the queue with the reasons. A request whose context is not sampled
// is not traced. A request ID that is no UUID stays as it is.
func TestTraceOfAQueuedRequest(t *testing.T) {
	s, interceptor, spans := newTracedEnvironment(t)
	answers := make(chan int, 2)
	for _, parent := range []string{
		"00-" + clientTrace + "-" + clientSpan + "-01", "00-" + strings.Repeat("1", 32) + "-" + clientSpan + "-00",
	} {
		go func() {
			response, err := traffic.Get(t.Context(), "http://"+coldstart.Proxy, coldstart.AppHost(0),
				http.Header{"Traceparent": {parent}, "X-Request-Id": {"not-a-uuid"}})
			if err != nil {
				t.Error(err)
			}
			answers <- response.Status
		}()
	}
	s.awaitQueued(t.Context(), interceptor, 2)
	s.addEndpoint(0)
	for range 2 {
		if status := await.Receive(t, "an answer", answers); status != http.StatusOK {
			t.Errorf("status %d", status)
		}
	}
	ofTrace := func(s span) bool { return s.trace == clientTrace }
	await.Described(t, "the spans of the proxy and of the interceptor", func() bool {
		all := spans.find(ofTrace)
		return slices.ContainsFunc(all, isServer) && slices.ContainsFunc(all, isQueue)
	}, func() string { return describe(spans.find(ofTrace)) })
	all := spans.find(ofTrace)
	t.Logf("the trace of the request:\n%s", describe(all))
	server, queue := all[slices.IndexFunc(all, isServer)], all[slices.IndexFunc(all, isQueue)]
	if server.parent != clientSpan || server.attributes["kedify.route"] != "apps/web-000" ||
		server.attributes["kedify.cluster"] != "apps/web-000/web-000" {
		t.Errorf("span of the request: %+v", server)
	}
	for name, want := range map[string]string{
		"kedify.object.namespace": "apps", "kedify.object.name": "web-000", "kedify.cluster": "apps/web-000/web-000",
		"kedify.queue.reason": "no-endpoint", "kedify.queue.outcome": "served",
		"kedify.queue.released_by": "endpoint-acknowledged",
	} {
		if queue.attributes[name] != want {
			t.Errorf("%s is %q, want %q", name, queue.attributes[name], want)
		}
	}
	if !slices.Contains(queue.events, tracing.EventReleased) || queue.isError {
		t.Errorf("span of the queue: %+v", queue)
	}
	check := slices.IndexFunc(all, func(s span) bool { return s.id == queue.parent })
	if check < 0 || all[check].service != "kedify-proxy" || all[check].parent != server.id {
		t.Errorf("the parent of the span of the queue is %q, want the call of the proxy:\n%s", queue.parent, describe(all))
	}
	if others := spans.find(func(s span) bool { return s.trace == strings.Repeat("1", 32) }); len(others) > 0 {
		t.Errorf("a request that is not sampled has spans:\n%s", describe(others))
	}
}

func isServer(s span) bool { return s.service == "kedify-proxy" && s.parent == clientSpan }

func isQueue(s span) bool { return s.service == tracing.Service && s.name == tracing.QueueSpan }

// TestTraceOfAWeight changes a weight as the router does. A real collector receives the trace: the publication, the
// acknowledgement of the proxy, and the status.
func TestTraceOfAWeight(t *testing.T) {
	s, _, spans := newTracedEnvironment(t)
	s.addEndpoint(0)
	s.addEndpoint(1)
	s.awaitAnswer(0)
	err := apiserver.Patch(t.Context(), s.Admin, "/apis/"+httpv1alpha1.SchemeGroupVersion.String()+"/namespaces/"+
		coldstart.Namespace+"/"+httpv1alpha1.Resource+"/"+coldstart.AppName(0), "test",
		map[string]any{"metadata": map[string]any{"annotations": map[string]any{
			httpv1alpha1.AnnotationWeightedBackends: "[{service: web-000, weight: 80}, {service: web-001, weight: 20}]",
		}}})
	if err != nil {
		t.Fatal(err)
	}
	isRoot := func(s span) bool { return s.name == tracing.WeightSpan }
	await.True(t, "the trace of the weight", func() bool { return len(spans.find(isRoot)) > 0 })
	root := spans.find(isRoot)[0]
	if root.attributes["kedify.weights"] != "web-000=80 web-001=20" || root.attributes["kedify.object.name"] != "web-000" ||
		root.attributes["kedify.proxies.acknowledged"] != "1" || root.isError {
		t.Errorf("root: %+v", root)
	}
	all := spans.find(func(s span) bool { return s.trace == root.trace })
	t.Logf("the trace of the weight:\n%s", describe(all))
	var names []string
	for _, child := range all {
		if child.parent == root.id {
			names = append(names, child.name)
		}
	}
	slices.Sort(names)
	want := []string{tracing.AckSpan, tracing.PublishSpan, tracing.StatusSpan}
	if slices.Sort(want); !slices.Equal(names, want) {
		t.Errorf("children %q, want %q", names, want)
	}
}

// TestTraceWithoutACollector: the collector is unreachable, and requests are served.
func TestTraceWithoutACollector(t *testing.T) {
	s := newEnvironment(t, never)
	s.Arguments = append(s.Arguments, "--tracing-endpoint=http://"+collectorAddress)
	interceptor := s.replica(0)
	s.proxy()
	waiting := s.enqueue(t.Context(), interceptor, 0)
	s.addEndpoint(0)
	s.expect(waiting, served())
}

// describe returns a line for each span.
func describe(spans []span) string {
	var lines []string
	for _, s := range spans {
		var attributes []string
		for _, key := range slices.Sorted(maps.Keys(s.attributes)) {
			if strings.HasPrefix(key, "kedify.") {
				attributes = append(attributes, key+"="+s.attributes[key])
			}
		}
		lines = append(lines, s.service+" "+s.name+" ("+s.id+", parent "+s.parent+") "+strings.Join(attributes, " ")+" "+
			strings.Join(s.events, ", "))
	}
	return strings.Join(lines, "\n")
}
