package testbed

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/envoyadmin"
	"github.com/kedify/argo-rollouts-plugin/e2e/inside"
	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
	"github.com/kedify/argo-rollouts-plugin/e2e/trace"
)

// State is the current state of the objects and proxies.
type State struct {
	// Rollout and Object are the last stored versions of the guide's objects.
	Rollout kube.Rollout
	Object  kube.HTTPScaledObject
	// RolloutRevision is the Rollout's resourceVersion.
	RolloutRevision int64
	// Envoys are the canary's weights that the proxies run, by the proxies' names. A proxy that does not respond or has no
	// route is missing.
	Envoys map[string]int
	// ReadyProxies is the number of proxies that are Ready and do not terminate. It is set only if proxies are followed.
	ReadyProxies int
}

// Weight returns the canary's weight in the annotation.
func (s State) Weight() int { return annotationPair().AnnotationWeight(weightsOf(s.Object)) }

// String implements fmt.Stringer.
func (s State) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s; annotation %s, ACKed %s", s.Rollout,
		kube.ShortWeights(weightsOf(s.Object)), s.Object.AckedWeights())
	if w := s.Rollout.Status.Canary.Weights; w != nil && w.Verified != nil {
		fmt.Fprintf(&text, ", weight %d verified %t", w.Canary.Weight, *w.Verified)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Envoys)) {
		fmt.Fprintf(&text, ", %s runs %d", name, s.Envoys[name])
	}
	return text.String()
}

// HasWeight reports whether a weight is active on all proxies: the annotation contains it, the status of the
// HTTPScaledObject reports the ACK of every proxy, and every Envoy runs it.
func (s State) HasWeight(weight, proxies int) bool {
	if s.Weight() != weight || !s.Object.Acked() || s.Object.Status.DataPlane.Proxies.Ready != proxies ||
		len(s.Envoys) != proxies {
		return false
	}
	for _, runs := range s.Envoys {
		if runs != weight {
			return false
		}
	}
	return true
}

// Observation is a weight observed at a place.
type Observation = trace.Observation

// The places of the annotation and of the ACKs reported in the status. The place of an Envoy is its name.
const (
	annotated = "annotation"
	acked     = "status.dataPlane"
)

// Record contains every observed weight by place: the annotation, the weight that all proxies have ACKed according to
// the status, and each Envoy.
type Record struct {
	mu            sync.Mutex
	state         State
	observed      map[string][]Observation
	weightsByHash map[string]int // weights by the hash of the annotation's text
	steps         []step
	passed        []passedStep
	ended         map[string]time.Time // when proxies were requested to terminate, by name
}

// step is a step that the Rollout has reached.
type step struct {
	index int
	at    time.Time
	// version is the Rollout's resourceVersion at that time.
	version int64
}

func newRecord() *Record {
	return &Record{
		state: State{Envoys: map[string]int{}}, observed: map[string][]Observation{},
		weightsByHash: map[string]int{"": 0}, ended: map[string]time.Time{},
	}
}

// Now returns the current state.
func (r *Record) Now() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	state := r.state
	state.Envoys = maps.Clone(state.Envoys)
	return state
}

// Since returns the weights by place since a moment, including the weight at that moment. It omits proxies that
// terminated before.
func (r *Record) Since(moment time.Time) map[string][]Observation {
	r.mu.Lock()
	defer r.mu.Unlock()
	since := map[string][]Observation{}
	for place, all := range r.observed {
		if end, ok := r.ended[place]; ok && end.Before(moment) {
			continue
		}
		first := len(all)
		for first > 0 && all[first-1].At.After(moment) {
			first--
		}
		since[place] = slices.Clone(all[max(0, first-1):])
	}
	return since
}

// StepReached returns when, and with which resourceVersion, the Rollout's status first contained a step or a later one.
// It ignores the time before the Rollout was last at an earlier step. It returns zero values if the step was not
// reached.
func (r *Record) StepReached(index int) (at time.Time, version int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range slices.Backward(r.steps) {
		if s.index < index {
			break
		}
		at, version = s.at, s.version
	}
	return at, version
}

// ACKed reports whether a status since a moment reported a weight as ACKed by all proxies.
func (r *Record) ACKed(moment time.Time, weight int) bool {
	return slices.ContainsFunc(r.Since(moment)[acked], func(s Observation) bool { return s.Weight == weight })
}

// UnexpectedWeights describes the weights since a moment that were not requested: see trace.Unexpected.
func (r *Record) UnexpectedWeights(moment time.Time, requested ...int) []string {
	return r.unexpected(moment, requested, func(_ string, seen []Observation) []Observation { return seen })
}

// UnexpectedTransientWeights is UnexpectedWeights without the last weight of each place, which WrongFinalWeights
// checks.
func (r *Record) UnexpectedTransientWeights(moment time.Time, requested ...int) []string {
	return r.unexpected(moment, requested, func(place string, seen []Observation) []Observation {
		if r.hasEnded(place) {
			return seen
		}
		return seen[:len(seen)-1]
	})
}

// hasEnded reports whether a place is a proxy that has terminated.
func (r *Record) hasEnded(place string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ended := r.ended[place]
	return ended
}

// WrongFinalWeights describes the places whose last weight is not the requested one, except proxies that have
// terminated.
func (r *Record) WrongFinalWeights(moment time.Time, requested int) []string {
	var descriptions []string
	since := r.Since(moment)
	for _, place := range slices.Sorted(maps.Keys(since)) {
		if last := since[place][len(since[place])-1]; last.Weight != requested && !r.hasEnded(place) {
			descriptions = append(descriptions,
				fmt.Sprintf("%s is %d since %+.3f s, requested %d", place, last.Weight, last.At.Sub(moment).Seconds(), requested))
		}
	}
	return descriptions
}

// unexpected describes the unexpected weights among those that selected returns for each place.
func (r *Record) unexpected(
	moment time.Time, requested []int, selected func(place string, seen []Observation) []Observation,
) []string {
	var descriptions []string
	since := r.Since(moment)
	for _, place := range slices.Sorted(maps.Keys(since)) {
		var weights []int
		for _, s := range selected(place, since[place]) {
			weights = append(weights, s.Weight)
		}
		if unexpected := trace.Unexpected(requested, weights); len(unexpected) > 0 {
			descriptions = append(descriptions,
				fmt.Sprintf("%s: %s; requested %v, unexpected %v", place, formatObservations(since[place], moment), requested, unexpected))
		}
	}
	return descriptions
}

// EarlyACKs describes the weights since a moment that were reported as ACKed by all proxies before an Envoy ran them:
// see trace.EarlyACKs.
func (r *Record) EarlyACKs(moment time.Time, requested ...int) []string {
	var descriptions []string
	since := r.Since(moment)
	for _, place := range slices.Sorted(maps.Keys(since)) {
		if place == annotated || place == acked {
			continue
		}
		for _, p := range trace.EarlyACKs(requested, since[acked], since[place]) {
			descriptions = append(descriptions,
				fmt.Sprintf("%s reported %d at %+.3f s, but a request to %s at %+.3f s returned %d", acked, p.Weight,
					p.Reported.Sub(moment).Seconds(), place, p.Polled.Sub(moment).Seconds(), p.Active))
		}
	}
	return descriptions
}

// Timeline lists the weights since a moment by place, with the times of their observation.
func (r *Record) Timeline(moment time.Time) []string {
	var lines []string
	since := r.Since(moment)
	for _, place := range slices.Sorted(maps.Keys(since)) {
		lines = append(lines, place+": "+formatObservations(since[place], moment))
	}
	return lines
}

// formatObservations formats weights with their times.
func formatObservations(observations []Observation, moment time.Time) string {
	var parts []string
	for _, s := range observations {
		parts = append(parts, fmt.Sprintf("%d (%+.3f s)", s.Weight, s.At.Sub(moment).Seconds()))
	}
	return strings.Join(parts, ", ")
}

// add records the weight of a place, observed by a request that began at began. The caller holds the lock.
func (r *Record) add(place string, weight int, began, seen time.Time) {
	all := r.observed[place]
	if len(all) == 0 || all[len(all)-1].Weight != weight {
		all = append(all, Observation{Weight: weight, At: seen})
		r.observed[place] = all
	}
	all[len(all)-1].Last = began
}

// addObject records a version of the HTTPScaledObject.
func (r *Record) addObject(version inside.Version) {
	var object kube.HTTPScaledObject
	if !decode(version, &object) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.Object = object
	raw := object.Metadata.Annotations[kube.WeightsAnnotation]
	weight := annotationPair().AnnotationWeight(weightsOf(object))
	r.weightsByHash[kube.WeightsHash(raw)] = weight
	r.add(annotated, weight, version.Seen, version.Seen)
	report := object.Status.DataPlane
	if report == nil || report.Proxies.Ready == 0 || report.Proxies.Acked < report.Proxies.Ready {
		return
	}
	reported, known := r.weightsByHash[report.AnnotationHash]
	if !known {
		reported = trace.OtherSplit
	}
	r.add(acked, reported, version.Seen, version.Seen)
}

// addRollout records a version of the Rollout.
func (r *Record) addRollout(version inside.Version) {
	var rollout kube.Rollout
	if !decode(version, &rollout) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.Rollout, r.state.RolloutRevision = rollout, version.Revision
	index := rollout.Status.CurrentStepIndex
	switch {
	case index == nil:
		return
	case len(r.steps) > 0:
		before := r.steps[len(r.steps)-1].index
		if before == *index {
			return
		}
		r.passed = append(r.passed, passedSteps(version, rollout.Status.Canary.Weights, before, *index)...)
	}
	r.steps = append(r.steps, step{index: *index, at: version.Seen, version: version.Revision})
}

// addEnvoy records the routes of an Envoy, read by a request that began at began and ended at seen. An Envoy without a
// route for the app, such as one that has just started, has no weight.
func (r *Record) addEnvoy(name string, began, seen time.Time, shares envoyadmin.Shares, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ended := r.ended[name]
	switch {
	case ended: // read at the same time
	case err == nil && len(shares) > 0:
		weight := envoyPair().EnvoyWeight(shares)
		r.state.Envoys[name] = weight
		r.add(name, weight, began, seen)
	default:
		delete(r.state.Envoys, name)
	}
}

// endEnvoy ends the record of a proxy that has been terminating since a moment. What it ran later does not count.
func (r *Record) endEnvoy(name string, since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.state.Envoys, name)
	r.ended[name] = since
	all := slices.DeleteFunc(r.observed[name], func(o Observation) bool { return o.At.After(since) })
	if len(all) == 0 {
		delete(r.observed, name)
		return
	}
	if last := &all[len(all)-1]; last.Last.After(since) {
		last.Last = since
	}
	r.observed[name] = all
}

// setReadyProxies sets the number of Ready proxies.
func (r *Record) setReadyProxies(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.ReadyProxies = n
}

// decode decodes a version. It returns false for a version without a value: the object does not exist.
func decode(version inside.Version, into any) bool {
	return version.Value != nil && json.Unmarshal(version.Value, into) == nil
}

// weightsOf returns the annotation as the router interprets it.
func weightsOf(object kube.HTTPScaledObject) string {
	text, _ := object.Weights()
	return text
}

// envoyPoll is the interval between two reads of an Envoy's routes.
const envoyPoll = 40 * time.Millisecond

// watchEnvoy records the routes of one proxy until ctx ends.
func (b *Testbed) watchEnvoy(ctx context.Context, p Proxy) {
	client := envoyadmin.NewClientOver(b.AdminTransport(p), AdminAddress)
	defer client.Close()
	ticks := time.NewTicker(envoyPoll)
	defer ticks.Stop()
	for {
		began := time.Now()
		shares, err := sharesOf(ctx, client)
		if ctx.Err() != nil {
			return
		}
		b.Record.addEnvoy(p.Name, began, time.Now(), shares, err)
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

func sharesOf(ctx context.Context, client *envoyadmin.Client) (envoyadmin.Shares, error) {
	routes, err := client.Routes(ctx, clusterPrefix)
	if err != nil {
		return nil, err
	}
	return envoyadmin.Split(routes)
}
