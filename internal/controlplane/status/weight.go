package status

import (
	"slices"
	"sync"
	"time"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status/peers"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// Weight is the way of one change of the annotation with the weights through the control plane: from the watch event to
// the status that the router verifies.
type Weight struct {
	// Object is the HTTPScaledObject, and ResourceVersion its version with the weights.
	Object          model.Key
	ResourceVersion string
	// Backends are the published weights in the format of the annotation, empty after the end of a canary.
	Backends string
	// Observed is when the interceptor began to process the change, and Published when all resources were published.
	Observed, Published time.Time
	// Acks are the acknowledgements of the Ready proxies, in their order.
	Acks []WeightAck
	// Reported is when the status with the acknowledged weights was written, zero if it was not.
	Reported time.Time
	// End is when the trace ended: with Reported, or with the next weight.
	End time.Time
	// Problem is why the weight did not become effective, "" if it did.
	Problem string
}

// WeightAck is the acknowledgement of a weight by a proxy.
type WeightAck struct {
	// Proxy is the name of the proxy's Pod.
	Proxy string
	// At is when the leader received it. It is at most a status write later than the acknowledgement itself.
	At time.Time
}

// superseded is the Problem of a weight that was replaced before all proxies had acknowledged it.
const superseded = "the next weight replaced it"

// weights are the weights on their way, by object.
type weights struct {
	mu     sync.Mutex
	active map[model.Key]*Weight
}

// startWeight follows a weight if the annotation of an object has changed. An earlier weight of the object ends.
func (l *leadership) startWeight(key model.Key, before, now *tracked, pass ingest.Pass) {
	if before == nil || before.object == nil || before.weightedBackends() == now.weightedBackends() {
		return
	}
	weight := &Weight{
		Object: key, ResourceVersion: now.object.ResourceVersion, Backends: now.outcome.WeightedBackends,
		Observed: pass.Started, Published: pass.Published,
	}
	if len(now.outcome.Problems) > 0 {
		weight.Problem = messages(now.outcome.Problems)
	}
	l.weights.mu.Lock()
	defer l.weights.mu.Unlock()
	if previous := l.weights.active[key]; previous != nil {
		previous.End, previous.Problem = pass.Started, superseded
		l.TraceWeight(*previous)
	}
	if weight.Problem != "" {
		delete(l.weights.active, key)
		weight.End = pass.Published
		l.TraceWeight(*weight)
		return
	}
	if l.weights.active == nil {
		l.weights.active = map[model.Key]*Weight{}
	}
	l.weights.active[key] = weight
}

// weightedBackends returns the annotation with the weights.
func (t tracked) weightedBackends() string {
	return t.object.Annotations[httpv1alpha1.AnnotationWeightedBackends]
}

// recordAcks records the proxies that have acknowledged the weight of an object by now.
func (l *leadership) recordAcks(key model.Key, object tracked, proxies []model.Proxy, now time.Time) {
	if l.TraceWeight == nil {
		return
	}
	l.weights.mu.Lock()
	defer l.weights.mu.Unlock()
	weight := l.weights.active[key]
	if weight == nil || object.object == nil {
		return
	}
	l.own.Read(func(own *peers.State) {
		l.peers.Read(func(others []*peers.State) {
			states := append(slices.Clip(others), own)
			for _, proxy := range proxies {
				isRecorded := slices.ContainsFunc(weight.Acks, func(ack WeightAck) bool { return ack.Proxy == proxy.Name })
				if hasAcked, _ := ackOf(key, object.fleet, object.digest, proxy, states); hasAcked && proxy.IsReady && !isRecorded {
					weight.Acks = append(weight.Acks, WeightAck{Proxy: proxy.Name, At: now})
				}
			}
		})
	})
}

// finishWeight ends the weight of an object whose status reports that every Ready proxy routes by it.
func (l *leadership) finishWeight(key model.Key, object tracked, report *httpv1alpha1.DataPlaneStatus) {
	if l.TraceWeight == nil || report == nil || !report.Effective {
		return
	}
	l.weights.mu.Lock()
	defer l.weights.mu.Unlock()
	weight := l.weights.active[key]
	if weight == nil || kube.Older(object.object.ResourceVersion, weight.ResourceVersion) {
		return
	}
	delete(l.weights.active, key)
	weight.Reported = time.Now()
	weight.End = weight.Reported
	l.TraceWeight(*weight)
}
