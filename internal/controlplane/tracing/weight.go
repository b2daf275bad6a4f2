package tracing

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
)

// Names of the spans of a weight. The first one is the root, and the others are its children.
const (
	// WeightSpan lasts from the watch event with the weight to the status that reports it.
	WeightSpan = "weight"
	// PublishSpan lasts until the resources of all fleets are published.
	PublishSpan = "publish weight"
	// AckSpan lasts from the publication to the acknowledgement of one proxy.
	AckSpan = "proxy acknowledges weight"
	// StatusSpan lasts from the last acknowledgement until the status is written.
	StatusSpan = "write status"
)

// Weight creates the trace of a weight, which has ended.
func (t *Tracer) Weight(weight status.Weight) {
	ctx, root := t.tracer.Start(context.Background(), WeightSpan, trace.WithNewRoot(),
		trace.WithTimestamp(weight.Observed),
		trace.WithAttributes(objectOf(weight.Object.Namespace, weight.Object.Name)...),
		trace.WithAttributes(
			attribute.String("kedify.resource_version", weight.ResourceVersion),
			attribute.String("kedify.weights", weightsText(weight.Backends)),
			attribute.Int("kedify.proxies.acknowledged", len(weight.Acks)),
		))
	t.child(ctx, PublishSpan, weight.Observed, weight.Published)
	last := weight.Published
	for _, ack := range weight.Acks {
		t.child(ctx, AckSpan, weight.Published, ack.At, attribute.String("kedify.proxy.name", ack.Proxy))
		if ack.At.After(last) {
			last = ack.At
		}
	}
	if !weight.Reported.IsZero() {
		t.child(ctx, StatusSpan, last, weight.Reported)
	}
	if weight.Problem != "" {
		root.SetStatus(codes.Error, weight.Problem)
	}
	root.End(trace.WithTimestamp(weight.End))
}

// child creates a span that has ended.
func (t *Tracer) child(ctx context.Context, name string, start, end time.Time, attributes ...attribute.KeyValue) {
	_, span := t.tracer.Start(ctx, name, trace.WithTimestamp(start), trace.WithAttributes(attributes...))
	span.End(trace.WithTimestamp(end))
}

// weightsText returns weights such as "shop-stable=80 shop-canary=20", "" without a canary.
func weightsText(annotation string) string {
	if annotation == "" {
		return ""
	}
	backends, err := split.Parse(annotation)
	if err != nil { // Not possible: the text was formatted by package split.
		return annotation
	}
	var texts []string
	for _, backend := range backends {
		texts = append(texts, fmt.Sprintf("%s=%d", backend.Service, backend.Weight))
	}
	return strings.Join(texts, " ")
}
