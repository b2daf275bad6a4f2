package split

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// Entry is a Rollout in a list of canaries.
type Entry struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Router is the router that splits its requests.
	Router string `json:"router"`
	// Phase is that of its status; Step and Steps as in Report.
	Phase string `json:"phase,omitempty"`
	Step  int    `json:"step"`
	Steps int    `json:"steps"`
	// StableService and CanaryService are its Services, with their numbers of ready endpoints.
	StableService   string `json:"stableService,omitempty"`
	CanaryService   string `json:"canaryService,omitempty"`
	StableEndpoints int    `json:"stableEndpoints"`
	CanaryEndpoints int    `json:"canaryEndpoints"`
	// Weight is the desired weight of the canary.
	Weight int64 `json:"weight"`
	// Verified is the status of condition Verified: "True", "False" or "Unknown".
	Verified metav1.ConditionStatus `json:"verified"`
	// Proxies are the numbers of proxies that serve its HTTPScaledObjects; nil for routes.
	Proxies *Proxies `json:"proxies,omitempty"`
	// Objects are its routing objects.
	Objects []string `json:"objects"`
	// Created is the time at which the Rollout was created.
	Created metav1.Time `json:"created"`
	// Removed is true in the last line of a watch about a Rollout: it was deleted, or no longer uses a router of this
	// project. The other fields are those before.
	Removed bool `json:"removed,omitempty"`
}

// Key returns the namespace and the name of the Rollout.
func (e *Entry) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: e.Namespace, Name: e.Name}
}

// status returns the text of column STATUS.
func (e *Entry) status() string {
	if e.Removed {
		return "Removed"
	}
	return e.Phase
}

// List returns the Rollouts that use a router of this project, sorted by namespace and name.
func List(cluster *facts.Facts) []Entry {
	all := []Entry{}
	for i := range cluster.Rollouts {
		r := &cluster.Rollouts[i]
		if r.Uses(facts.HTTPRouter) || r.Uses(facts.GatewayRouter) {
			all = append(all, canaryOf(cluster, r))
		}
	}
	Sort(all)
	return all
}

// Sort sorts entries by namespace and name.
func Sort(all []Entry) {
	slices.SortFunc(all, func(a, b Entry) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}

// canaryOf returns the entry of a Rollout.
func canaryOf(cluster *facts.Facts, r *facts.Rollout) Entry {
	report := Of(cluster, r)
	entry := Entry{
		Namespace: r.Namespace, Name: r.Name, Router: report.Router, Phase: report.Phase, Step: report.Step,
		Steps: report.Steps, Verified: report.Condition(Verified).Status, Objects: []string{}, Created: r.CreationTimestamp,
	}
	for _, service := range report.Services {
		switch service.Role {
		case Stable:
			entry.StableService, entry.StableEndpoints = service.Name, service.Endpoints
		case Canary:
			entry.CanaryService, entry.CanaryEndpoints, entry.Weight = service.Name, service.Endpoints, service.Desired
		case Experiment:
		}
	}
	for _, object := range report.Objects {
		entry.Objects = append(entry.Objects, object.Name)
		if object.Proxies != nil {
			if entry.Proxies == nil {
				entry.Proxies = &Proxies{}
			}
			entry.Proxies.Ready += object.Proxies.Ready
			entry.Proxies.Acked += object.Proxies.Acked
		}
	}
	return entry
}

// routerOf returns the router of a Rollout.
func routerOf(r *facts.Rollout) string {
	var all []string
	for _, name := range []string{facts.HTTPRouter, facts.GatewayRouter} {
		if r.Uses(name) {
			all = append(all, name)
		}
	}
	return strings.Join(all, ",")
}

// age formats the time since an object was created, as kubectl does.
func age(created metav1.Time, now time.Time) string {
	if created.IsZero() {
		return "-"
	}
	return duration.HumanDuration(now.Sub(created.Time))
}

// ratio formats two numbers.
func ratio[T int | int32](a, b T) string { return fmt.Sprintf("%d/%d", a, b) }
