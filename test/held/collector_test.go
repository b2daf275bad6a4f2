package held

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
)

const (
	// collectorVariable is the environment variable with the path of the binary of tools/otelcol.
	collectorVariable = "OTELCOL_BIN"
	// collectorAddress is the address of the collector, in the network of this test.
	collectorAddress = "127.0.0.1:4317"
	// collectorConfig is the configuration of the collector, with the address of the test.
	collectorConfig = `
receivers: {otlp: {protocols: {grpc: {endpoint: "` + collectorAddress + `"}}}}
exporters:
  otlp_http: {endpoint: "TEST", encoding: json, compression: none, sending_queue: {enabled: false}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {traces: {receivers: [otlp], exporters: [otlp_http]}}
`
)

// collector is a running OpenTelemetry Collector, and the spans that it has passed on.
type collector struct {
	mu    sync.Mutex
	spans []span
}

// span is a span with the service that has sent it.
type span struct {
	service, trace, id, parent, name string
	attributes                       map[string]string
	events                           []string
	isError                          bool
}

// startCollector starts a collector. It ends with the test.
func startCollector(t *testing.T) *collector {
	t.Helper()
	binary := os.Getenv(collectorVariable)
	if binary == "" {
		t.Fatalf("%s is not set: run `make test-parts`, or set it to what tools/otelcol was built to", collectorVariable)
	}
	c := new(collector)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err == nil {
			err = c.add(text)
		}
		if err != nil {
			t.Errorf("%s: %v", r.URL, err)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(server.Close)
	// The /proc of the machine does not have the PIDs of this test's namespace, in which the collector looks for its own.
	program.Run(t, "env", "HOST_PROC=/proc/self", binary, "--config=yaml:"+strings.Replace(collectorConfig, "TEST", server.URL, 1))
	await.True(t, "the collector listens", func() bool { return isListening(t) })
	return c
}

// attribute is an attribute in the JSON encoding of OTLP.
type attribute struct {
	Key   string
	Value map[string]any
}

// add stores the spans of a request in the JSON encoding of OTLP.
func (c *collector) add(text []byte) error {
	var request struct {
		ResourceSpans []struct {
			Resource   struct{ Attributes []attribute }
			ScopeSpans []struct {
				Spans []struct {
					TraceID, SpanID, ParentSpanID, Name string
					Attributes                          []attribute
					Events                              []struct{ Name string }
					Status                              struct{ Code int }
				}
			}
		}
	}
	if err := json.Unmarshal(text, &request); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range request.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, from := range scope.Spans {
				s := span{
					service: valuesOf(resource.Resource.Attributes)["service.name"], trace: from.TraceID, id: from.SpanID,
					parent: from.ParentSpanID, name: from.Name, attributes: valuesOf(from.Attributes),
					isError: from.Status.Code == 2,
				}
				for _, event := range from.Events {
					s.events = append(s.events, event.Name)
				}
				c.spans = append(c.spans, s)
			}
		}
	}
	return nil
}

// valuesOf returns the values of attributes as texts.
func valuesOf(attributes []attribute) map[string]string {
	values := map[string]string{}
	for _, one := range attributes {
		for _, value := range one.Value {
			values[one.Key] = fmt.Sprint(value)
		}
	}
	return values
}

// find returns the spans that match.
func (c *collector) find(matches func(span) bool) (found []span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if matches(s) {
			found = append(found, s)
		}
	}
	return found
}

// isListening reports whether the collector accepts connections.
func isListening(t *testing.T) bool {
	t.Helper()
	connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", collectorAddress)
	if err == nil {
		_ = connection.Close()
	}
	return err == nil
}
