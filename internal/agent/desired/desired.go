package desired

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// Bounds of a ScaledObject's replicas where it names none (KEDA's API).
const defaultMin, defaultMax = 0, 100

// Problem is a user's mistake.
type Problem struct {
	// Reason is one of the reasons of httpv1alpha1.ConditionTriggerAccepted.
	Reason string
	// Message names the trigger, the key, the value and the remedy.
	Message string
	// Advisory says that the trigger is carried out nevertheless.
	Advisory bool
}

// Want is what one trigger stands for.
type Want struct {
	// Name is the HTTPScaledObject's name. It is empty where it cannot be one.
	Name string
	// Object is what it should be: metadata and spec, as far as they are the agent's. It is nil
	// where the trigger cannot be understood: then what exists stays as it is.
	Object *httpv1alpha1.HTTPScaledObject
	// Problems are the mistakes, in the order of the trigger's keys.
	Problems []Problem
}

// named is a trigger that is ours with the name of its HTTPScaledObject.
type named struct {
	trigger  apis.Trigger
	index    int // in spec.triggers
	standing trigger.Class
	name     string
}

// ours are the triggers that scale by HTTP requests, each with the name of its HTTPScaledObject, which
// carries the weights of a canary: as long as it can be told which trigger is which, none is renamed. One
// that KEDA reads has the name by which the scaler looks for it, and so has any that names its object. One
// to be converted of which old, the version before or nil, had the name keeps it: it is the trigger of the
// same name, or of the same requests. Of the others the first one has the ScaledObject's name, and the next
// ones that with the trigger's name or position behind it. address is where our scaler listens.
func ours(scaled, old *apis.ScaledObject, address string) []named {
	var found []named
	taken := map[string]bool{}
	for i, each := range scaled.Spec.Triggers {
		one := named{trigger: each, index: i, standing: trigger.Classify(each.Type, each.Metadata, address)}
		switch one.standing {
		case trigger.Unconverted:
			one.name = trigger.ObjectName(each.Metadata, "")
		case trigger.Managed:
			one.name = trigger.ObjectName(each.Metadata, scaled.Name)
		default:
			continue
		}
		taken[one.name] = true
		found = append(found, one)
	}
	for i := range found {
		if name := inherited(found[i].trigger, old); found[i].name == "" && !taken[name] {
			found[i].name, taken[name] = name, true
		}
	}
	for position := range found {
		one := &found[position]
		switch {
		case one.name != "":
		case position == 0 && !taken[scaled.Name]:
			one.name = scaled.Name
		case one.trigger.Name != "":
			one.name = scaled.Name + "-" + one.trigger.Name
		default:
			one.name = scaled.Name + "-" + strconv.Itoa(position)
		}
	}
	return found
}

// inherited is the name that the same trigger says in the version before, or empty.
func inherited(one apis.Trigger, old *apis.ScaledObject) string {
	if old == nil || len(one.Metadata) == 0 {
		return ""
	}
	for _, before := range old.Spec.Triggers {
		isSame := one.Name == before.Name
		for _, key := range []string{trigger.KeyHosts, trigger.KeyPathPrefixes, trigger.KeyHeaders} {
			isSame = isSame && (one.Name != "" || one.Metadata[key] == before.Metadata[key])
		}
		if name := trigger.ObjectName(before.Metadata, ""); isSame && name != "" {
			return name
		}
	}
	return ""
}

// Keeps says whether a ScaledObject has a trigger that may stand for one of its HTTPScaledObjects in a
// way that is not followed: one that only refers to it, or one of another scaler's address. Then none is
// deleted.
func Keeps(scaled *apis.ScaledObject, address string) bool {
	return slices.ContainsFunc(scaled.Spec.Triggers, func(each apis.Trigger) bool {
		standing := trigger.Classify(each.Type, each.Metadata, address)
		return standing == trigger.Reference || standing == trigger.OtherScaler
	})
}

// Names are those of the HTTPScaledObjects that a ScaledObject stands for, mistaken ones included.
func Names(scaled *apis.ScaledObject, address string) []string {
	var names []string
	for _, one := range ours(scaled, nil, address) {
		names = append(names, one.name)
	}
	return names
}

// Desired says which HTTPScaledObjects a ScaledObject stands for: one for each of its triggers that
// scale by HTTP requests. rollout is its target, or nil if that is none or is not there. address is
// where our scaler listens.
func Desired(scaled *apis.ScaledObject, rollout *apis.Rollout, address string) []Want {
	if madeFromHTTPScaledObject(scaled) {
		return nil
	}
	var wants []Want
	taken := map[string]bool{}
	for _, one := range ours(scaled, nil, address) {
		want := Want{Name: one.name}
		where := fmt.Sprintf("spec.triggers[%d]", one.index)
		if wrong := validation.IsDNS1123Subdomain(one.name); len(wrong) > 0 {
			want.Name = ""
			want.add(httpv1alpha1.ReasonInvalidName, false, "%s: its HTTPScaledObject cannot be named "+
				"%.80q: %s; give the trigger a name of lower-case letters, digits and hyphens",
				where, one.name, wrong[0])
		} else if taken[one.name] {
			want.Name = ""
			want.add(httpv1alpha1.ReasonInvalidName, false, "%s: another trigger already has the "+
				"HTTPScaledObject %q; name another one by httpScaledObject in the metadata", where, one.name)
		}
		taken[one.name] = true
		want.read(scaled, rollout, one, where)
		wants = append(wants, want)
	}
	return wants
}

// madeFromHTTPScaledObject says whether a ScaledObject was itself made from an HTTPScaledObject, by
// the operator of the KEDA HTTP add-on.
func madeFromHTTPScaledObject(scaled *apis.ScaledObject) bool {
	owner := metav1.GetControllerOf(scaled)
	return owner != nil && owner.Kind == httpv1alpha1.Kind
}

// add adds a problem.
func (w *Want) add(reason string, advisory bool, format string, values ...any) {
	w.Problems = append(w.Problems, Problem{reason, fmt.Sprintf(format, values...), advisory})
}

// read makes the object of a trigger.
func (w *Want) read(
	scaled *apis.ScaledObject, rollout *apis.Rollout, one named, where string,
) {
	parsed, problems := trigger.Parse(one.trigger.Metadata)
	for _, problem := range problems {
		reason := httpv1alpha1.ReasonInvalidTrigger
		if problem.Ignored {
			reason = httpv1alpha1.ReasonKeyIgnored
		}
		w.add(reason, problem.Ignored, "%s.metadata.%s", where, problem)
	}
	service := w.service(scaled, rollout, parsed.Service, where)
	replicas := w.replicas(scaled)
	for _, problem := range w.Problems {
		if !problem.Advisory {
			return
		}
	}
	w.Object = &httpv1alpha1.HTTPScaledObject{
		ObjectMeta: metav1.ObjectMeta{
			Name: w.Name, Namespace: scaled.Namespace,
			Labels:          map[string]string{httpv1alpha1.LabelManagedBy: httpv1alpha1.ManagedByAgent},
			Annotations:     annotations(scaled, one.trigger.Metadata),
			OwnerReferences: []metav1.OwnerReference{owner(scaled)},
		},
		Spec: httpv1alpha1.HTTPScaledObjectSpec{
			Hosts: parsed.Hosts, PathPrefixes: parsed.PathPrefixes, Headers: headers(parsed.Headers),
			ScaleTargetRef: target(scaled, service, parsed),
			Replicas:       replicas,
			ScalingMetric:  metric(parsed),
		},
	}
}

// target names the workload and its Service.
func target(
	scaled *apis.ScaledObject, service string, parsed trigger.Trigger,
) httpv1alpha1.ScaleTargetRef {
	workload := scaled.Spec.ScaleTargetRef
	return httpv1alpha1.ScaleTargetRef{
		Name:       workload.Name,
		APIVersion: orElse(workload.APIVersion, "apps/v1"),
		Kind:       orElse(workload.Kind, "Deployment"),
		Service:    service,
		Port:       parsed.Port,
		PortName:   parsed.PortName,
	}
}

// service is the Service that requests go to: the trigger's, or the Rollout's.
func (w *Want) service(
	scaled *apis.ScaledObject, rollout *apis.Rollout, service, where string,
) string {
	target := scaled.Spec.ScaleTargetRef
	if !scaled.TargetsRollout() {
		if service == "" {
			w.add(httpv1alpha1.ReasonServiceUnknown, false, "%s.metadata.service: is required, because "+
				"the target is the %s %q and no Rollout; name the Service that the requests go to",
				where, orElse(target.Kind, "Deployment"), target.Name)
		}
		return service
	}
	stable := ""
	if rollout != nil {
		stable = rollout.StableService()
	}
	switch {
	case service == "" && rollout == nil:
		w.add(httpv1alpha1.ReasonServiceUnknown, false, "%s: Rollout %q, which names the Service, is "+
			"not there; create it, or set service in the metadata", where, target.Name)
	case service == "" && stable == "":
		w.add(httpv1alpha1.ReasonServiceUnknown, false, "%s: Rollout %q names no Service; set its "+
			"spec.strategy.canary.stableService or spec.strategy.blueGreen.activeService, or service "+
			"in the metadata", where, target.Name)
	case service == "":
		return stable
	case stable != "" && stable != service:
		w.add(httpv1alpha1.ReasonServiceDisagrees, true, "%s.metadata.service %q: Rollout %q has the "+
			"stable Service %q; remove service, and the Rollout's counts",
			where, service, target.Name, stable)
	}
	return service
}

// replicas are the bounds of the replicas.
func (w *Want) replicas(scaled *apis.ScaledObject) *httpv1alpha1.ReplicaRange {
	bound := func(field string, value *int64, fallback int32) *int32 {
		if value == nil {
			return &fallback
		}
		if *value < 0 || *value > math.MaxInt32 {
			w.add(httpv1alpha1.ReasonInvalidTrigger, false,
				"spec.%s %d: use a number from 0 to %d", field, *value, math.MaxInt32)
			return nil
		}
		return new(int32(*value))
	}
	return &httpv1alpha1.ReplicaRange{
		Min: bound("minReplicaCount", scaled.Spec.MinReplicaCount, defaultMin),
		Max: bound("maxReplicaCount", scaled.Spec.MaxReplicaCount, defaultMax),
	}
}

// metric says by what the workload scales.
func metric(parsed trigger.Trigger) *httpv1alpha1.ScalingMetric {
	value := int(parsed.TargetValue)
	if parsed.Metric == trigger.MetricConcurrency {
		concurrency := httpv1alpha1.ConcurrencyMetric{TargetValue: value}
		return &httpv1alpha1.ScalingMetric{Concurrency: &concurrency}
	}
	return &httpv1alpha1.ScalingMetric{RequestRate: &httpv1alpha1.RequestRateMetric{
		TargetValue: value,
		Window:      &metav1.Duration{Duration: parsed.Window},
		Granularity: &metav1.Duration{Duration: parsed.Granularity},
	}}
}

// headers says the same in the API's words.
func headers(conditions []trigger.Header) []httpv1alpha1.Header {
	var out []httpv1alpha1.Header
	for _, condition := range conditions {
		out = append(out, httpv1alpha1.Header(condition))
	}
	return out
}

// owner says whose the HTTPScaledObjects of a ScaledObject are. It does not block the owner's
// deletion: that would take a permission on its finalizers where the API server enforces it
// (OwnerReferencesPermissionEnforcement).
func owner(scaled *apis.ScaledObject) metav1.OwnerReference {
	kind := apis.ScaledObjectKind()
	return metav1.OwnerReference{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind,
		Name: scaled.Name, UID: scaled.UID, Controller: new(true),
	}
}

// orElse is text, or fallback where text is empty.
func orElse(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}
