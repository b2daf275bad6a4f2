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

// State is what every place says now.
type State struct {
	// Rollout and Object are the guide's objects as they were stored last.
	Rollout kube.Rollout
	Object  kube.HTTPScaledObject
	// RolloutRevision is the Rollout's resourceVersion.
	RolloutRevision int64
	// Envoys are the canary's weights that the proxies run, by name. One that
	// doesn't answer, or has no route, is missing.
	Envoys map[string]int
}

// Weight is the canary's weight by the annotation.
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

// HasWeight says whether a weight is in force everywhere: the annotation says it,
// every proxy has acknowledged it by the HTTPScaledObject's status, and every
// Envoy runs it.
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

// Observation is a weight that a place took on.
type Observation = trace.Observation

// acked is where the reports of what every proxy has acknowledged are kept,
// annotated where the annotation is. Envoys are kept under their names.
const (
	annotated = "annotation"
	acked     = "status.dataPlane"
)

// Record keeps every weight that was seen, by place: the annotation, what the
// reports say that all proxies have acknowledged, and each Envoy.
type Record struct {
	mu            sync.Mutex
	state         State
	observed      map[string][]Observation
	weightsByHash map[string]int // weights by the hash of the annotation's text
	steps         []step
}

// step is a step that the Rollout came to.
type step struct {
	index int
	at    time.Time
	// version is the Rollout's resourceVersion with which it came there.
	version int64
}

func newRecord() *Record {
	return &Record{state: State{Envoys: map[string]int{}}, observed: map[string][]Observation{},
		weightsByHash: map[string]int{"": 0}}
}

// Now returns what every place says.
func (r *Record) Now() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	state := r.state
	state.Envoys = maps.Clone(state.Envoys)
	return state
}

// Since returns, by place, the weights since a moment: the one that was in
// force then, and all later ones.
func (r *Record) Since(moment time.Time) map[string][]Observation {
	r.mu.Lock()
	defer r.mu.Unlock()
	since := map[string][]Observation{}
	for place, all := range r.observed {
		first := len(all)
		for first > 0 && all[first-1].At.After(moment) {
			first--
		}
		since[place] = slices.Clone(all[max(0, first-1):])
	}
	return since
}

// StepReached is when, and with which resourceVersion, the controller first wrote
// down that the Rollout is at a step or has passed it, since the Rollout was last
// before it; zero if it has not.
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

// ACKed returns whether a report since a moment said that all proxies have acknowledged a weight.
func (r *Record) ACKed(moment time.Time, weight int) bool {
	return slices.ContainsFunc(r.Since(moment)[acked], func(s Observation) bool { return s.Weight == weight })
}

// UnexpectedWeights describes the weights since a moment that nobody asked for: see
// trace.Strays.
func (r *Record) UnexpectedWeights(moment time.Time, asked ...int) []string {
	return r.unexpected(moment, asked, func(seen []Observation) []Observation { return seen })
}

// UnexpectedTransientWeights is Strays without the weight that each place has come to rest at,
// which Resting judges.
func (r *Record) UnexpectedTransientWeights(moment time.Time, asked ...int) []string {
	return r.unexpected(moment, asked, func(seen []Observation) []Observation { return seen[:len(seen)-1] })
}

// WrongFinalWeights describes the places that have come to rest at another weight than
// asked.
func (r *Record) WrongFinalWeights(moment time.Time, asked int) []string {
	var descriptions []string
	since := r.Since(moment)
	for _, place := range slices.Sorted(maps.Keys(since)) {
		if last := since[place][len(since[place])-1]; last.Weight != asked {
			descriptions = append(descriptions,
				fmt.Sprintf("%s rests at %d since %+.3f s, asked %d", place, last.Weight, last.At.Sub(moment).Seconds(), asked))
		}
	}
	return descriptions
}

// unexpected describes the strays among what count takes of the weights of each place.
func (r *Record) unexpected(moment time.Time, asked []int, selected func([]Observation) []Observation) []string {
	var descriptions []string
	since := r.Since(moment)
	for _, place := range slices.Sorted(maps.Keys(since)) {
		var weights []int
		for _, s := range selected(since[place]) {
			weights = append(weights, s.Weight)
		}
		if unexpected := trace.Unexpected(asked, weights); len(unexpected) > 0 {
			descriptions = append(descriptions,
				fmt.Sprintf("%s: %s; asked %v, strange %v", place, formatObservations(since[place], moment), asked, unexpected))
		}
	}
	return descriptions
}

// EarlyACKs describes the weights since a moment that every proxy was said to
// have acknowledged before an Envoy ran them: see trace.Prematures.
func (r *Record) EarlyACKs(moment time.Time, asked ...int) []string {
	var descriptions []string
	since := r.Since(moment)
	for _, place := range slices.Sorted(maps.Keys(since)) {
		if place == annotated || place == acked {
			continue
		}
		for _, p := range trace.EarlyACKs(asked, since[acked], since[place]) {
			descriptions = append(descriptions,
				fmt.Sprintf("%s said %d at %+.3f s, and a look at %s that began at %+.3f s found %d", acked, p.Weight,
					p.Reported.Sub(moment).Seconds(), place, p.Polled.Sub(moment).Seconds(), p.Active))
		}
	}
	return descriptions
}

// Timeline draws the weights since a moment, place by place, with the times at
// which they were seen.
func (r *Record) Timeline(moment time.Time) []string {
	var lines []string
	since := r.Since(moment)
	for _, place := range slices.Sorted(maps.Keys(since)) {
		lines = append(lines, place+": "+formatObservations(since[place], moment))
	}
	return lines
}

// formatObservations draws weights with their times.
func formatObservations(sightings []Observation, moment time.Time) string {
	var parts []string
	for _, s := range sightings {
		parts = append(parts, fmt.Sprintf("%d (%+.3f s)", s.Weight, s.At.Sub(moment).Seconds()))
	}
	return strings.Join(parts, ", ")
}

// add keeps a weight that was seen at a place by a look that began then. The
// caller holds the lock.
func (r *Record) add(place string, weight int, began, seen time.Time) {
	all := r.observed[place]
	if len(all) == 0 || all[len(all)-1].Weight != weight {
		all = append(all, Observation{Weight: weight, At: seen})
		r.observed[place] = all
	}
	all[len(all)-1].Last = began
}

// addObject takes in a version of the HTTPScaledObject.
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

// addRollout takes in a version of the Rollout.
func (r *Record) addRollout(version inside.Version) {
	var rollout kube.Rollout
	if !decode(version, &rollout) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.Rollout, r.state.RolloutRevision = rollout, version.Revision
	if index := rollout.Status.CurrentStepIndex; index != nil &&
		(len(r.steps) == 0 || r.steps[len(r.steps)-1].index != *index) {
		r.steps = append(r.steps, step{index: *index, at: version.Seen, version: version.Revision})
	}
}

// addEnvoy takes in what an Envoy runs, by a look that began then. One without a
// route for the app, as when it has just started, serves nothing, so it has no
// weight.
func (r *Record) addEnvoy(name string, began time.Time, shares envoyadmin.Shares, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil && len(shares) > 0:
		weight := envoyPair().EnvoyWeight(shares)
		r.state.Envoys[name] = weight
		r.add(name, weight, began, time.Now())
	default:
		delete(r.state.Envoys, name)
	}
}

// decode reads a version. One without a value is of an object that is gone or
// not yet there.
func decode(version inside.Version, into any) bool {
	return version.Value != nil && json.Unmarshal(version.Value, into) == nil
}

// weightsOf is the annotation as the router means it.
func weightsOf(object kube.HTTPScaledObject) string {
	text, _ := object.Weights()
	return text
}

// envoyPoll is the time between two looks at an Envoy.
const envoyPoll = 40 * time.Millisecond

// watchEnvoy looks at one proxy until ctx ends.
func (b *Testbed) watchEnvoy(ctx context.Context, p Proxy) {
	client := envoyadmin.NewClientOver(b.Inside.Transport(), func() string { return p.Admin.String() })
	defer client.Close()
	ticks := time.NewTicker(envoyPoll)
	defer ticks.Stop()
	for {
		began := time.Now()
		shares, err := sharesOf(ctx, client)
		if ctx.Err() != nil {
			return
		}
		b.Record.addEnvoy(p.Name, began, shares, err)
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
