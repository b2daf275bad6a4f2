package autowire

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/truncate"
)

// maxMessage is the longest message of a condition, in bytes; the schema of metav1.Condition allows 32768.
const maxMessage = 4096

// outcome is what becomes of one backend.
type outcome struct{ reason, message string }

// isObstacle says whether something is in the way. That a backend is another router's business is not, for the others.
func (o outcome) isObstacle() bool {
	return o.reason != httpv1alpha1.ReasonWired && o.reason != httpv1alpha1.ReasonRouted
}

// outcomes are what becomes of the backends of each target, by its name.
type outcomes map[string][]outcome

// tell notes what becomes of a backend for each of its targets.
func (w *wiring) tell(targets []*Target, place *backend, reason, message string) {
	where := w.object.String() + ", " + place.title
	if message != "" {
		where += ": " + message
	} else if !slices.ContainsFunc(targets, func(t *Target) bool { return t.takesAll(place.sees) }) {
		where += " (a request for it that no trigger takes is answered 404)"
	}
	for _, target := range targets {
		w.told[target.Name] = append(w.told[target.Name], outcome{reason, where})
	}
}

// tellAll tells the same of every target that has a backend in the object.
func (w *wiring) tellAll(reason, message string) {
	for i := range w.object.places {
		place := &w.object.places[i]
		w.tell(w.of(place), place, reason, message)
	}
}

// condition is what is said of a target: that it is wired where all its backends are, and else what is first in
// the way.
func (o outcomes) condition(target Target) metav1.Condition {
	found := metav1.Condition{Type: httpv1alpha1.ConditionAutowired, Status: metav1.ConditionFalse}
	all := o[target.Name]
	switch {
	case target.NotCarriedOut != "":
		found.Reason, found.Message = httpv1alpha1.ReasonNotCarriedOut, target.NotCarriedOut+
			"; point the backends at Service "+ProxyService+` yourself, or set trafficAutowire: "false"`
		return found
	case len(all) == 0:
		found.Reason = httpv1alpha1.ReasonNothingToWire
		found.Message = "no " + target.kinds() + " has a backend with Service " + target.Service +
			", the trigger's port, and a host and path of the trigger"
		return found
	}
	found.Reason, found.Status = httpv1alpha1.ReasonWired, metav1.ConditionTrue
	if at := slices.IndexFunc(all, outcome.isObstacle); at >= 0 {
		found.Reason, found.Status = all[at].reason, metav1.ConditionFalse
		all = slices.DeleteFunc(slices.Clone(all), func(o outcome) bool { return o.reason != found.Reason })
	} else if !slices.ContainsFunc(all, func(o outcome) bool { return o.reason == found.Reason }) {
		found.Reason, found.Status = httpv1alpha1.ReasonRouted, metav1.ConditionFalse
	}
	var parts []string
	for _, each := range all {
		parts = append(parts, each.message)
	}
	found.Message = truncate.Text(strings.Join(parts, "; "), maxMessage)
	return found
}
