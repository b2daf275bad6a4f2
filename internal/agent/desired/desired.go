package desired

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// Default bounds of a ScaledObject's replicas (KEDA's API).
const defaultMin, defaultMax = 0, 100

// Problem is a validation error of a trigger.
type Problem struct {
	// Reason is one of the reasons of httpv1alpha1.ConditionTriggerAccepted.
	Reason string
	// Message has the trigger, the key, the value and the fix.
	Message string
	// Advisory reports whether the trigger is applied nevertheless.
	Advisory bool
	// isGuess reports whether a guessed value applies to a new object only.
	isGuess bool
}

// Want is the desired HTTPScaledObject of one trigger.
type Want struct {
	// Name is the HTTPScaledObject's name. It is empty if the name is invalid or in use by another trigger.
	Name string
	// Object is the desired object: the metadata and spec that the agent owns. It is nil if the trigger is
	// invalid. An existing object keeps its own values of the invalid and guessed fields.
	Object *httpv1alpha1.HTTPScaledObject
	// incomplete is Object without the invalid and guessed fields.
	incomplete *httpv1alpha1.HTTPScaledObject
	// guess is the target of a new object.
	guess httpv1alpha1.ScaleTargetRef
	// alternates are the Services of which one at a time is the Rollout's stable one, if it has such Services.
	alternates []string
	// lacksHeaders reports whether incomplete lacks invalid headers, or those of a misspelled key.
	lacksHeaders bool
	// HostsIncomplete and PathPrefixesIncomplete report whether the trigger has invalid hosts and path prefixes, which the
	// object lacks. Then an existing object keeps its own in addition.
	HostsIncomplete, PathPrefixesIncomplete bool
	// Problems are the validation errors, in the order of the trigger's keys.
	Problems []Problem
}

// managedTrigger is a trigger of the agent with the name of its HTTPScaledObject.
type managedTrigger struct {
	trigger apis.Trigger
	index   int // in spec.triggers
	class   trigger.Class
	name    string
}

// managedTriggers returns the triggers that scale by HTTP requests, each with the name of its HTTPScaledObject.
// That object carries the weights of a canary, so a trigger keeps its name as long as it can be identified.
//
// A trigger that KEDA reads has the name by which the scaler finds the object, as has any trigger with an explicit
// name. A trigger to convert inherits the name from old, the previous version or nil: from the trigger with the
// same name or the same requests. Of the others, the first has the ScaledObject's name. The next ones have it with
// the trigger's name or position appended. address is the address of the agent's scaler.
func managedTriggers(scaled, old *apis.ScaledObject, address string) []managedTrigger {
	var triggers []managedTrigger
	usedNames := map[string]bool{}
	for i, candidate := range scaled.Spec.Triggers {
		class := trigger.Classify(candidate.Type, candidate.Metadata, address)
		managed := managedTrigger{trigger: candidate, index: i, class: class}
		switch managed.class {
		case trigger.Unconverted:
			managed.name = trigger.ObjectName(candidate.Metadata, "")
		case trigger.Managed:
			managed.name = trigger.ObjectName(candidate.Metadata, scaled.Name)
		default:
			continue
		}
		usedNames[managed.name] = true
		triggers = append(triggers, managed)
	}
	for i := range triggers {
		if name := inheritedName(triggers[i].trigger, old); triggers[i].name == "" && !usedNames[name] {
			triggers[i].name, usedNames[name] = name, true
		}
	}
	for position := range triggers {
		managed := &triggers[position]
		switch {
		case managed.name != "":
		case position == 0 && !usedNames[scaled.Name]:
			managed.name = scaled.Name
		case managed.trigger.Name != "":
			managed.name = scaled.Name + "-" + managed.trigger.Name
		default:
			managed.name = scaled.Name + "-" + strconv.Itoa(position)
		}
	}
	return triggers
}

// inheritedName returns the name of the same trigger in the previous version, or empty.
func inheritedName(current apis.Trigger, old *apis.ScaledObject) string {
	if old == nil || len(current.Metadata) == 0 {
		return ""
	}
	for _, before := range old.Spec.Triggers {
		isSame := current.Name == before.Name
		for _, key := range []string{trigger.KeyHosts, trigger.KeyPathPrefixes, trigger.KeyHeaders} {
			isSame = isSame && (current.Name != "" || current.Metadata[key] == before.Metadata[key])
		}
		if name := trigger.ObjectName(before.Metadata, ""); isSame && name != "" {
			return name
		}
	}
	return ""
}

// PreventsDeletion reports whether a ScaledObject has a trigger that may use one of its HTTPScaledObjects without
// being managed: a reference to the object, or a trigger with the address of another scaler. Then no object is
// deleted.
func PreventsDeletion(scaled *apis.ScaledObject, address string) bool {
	return slices.ContainsFunc(scaled.Spec.Triggers, func(candidate apis.Trigger) bool {
		class := trigger.Classify(candidate.Type, candidate.Metadata, address)
		return class == trigger.Reference || class == trigger.OtherScaler
	})
}

// ObjectNames returns the names of the HTTPScaledObjects of a ScaledObject, including those of invalid triggers.
func ObjectNames(scaled *apis.ScaledObject, address string) []string {
	var names []string
	for _, managed := range managedTriggers(scaled, nil, address) {
		names = append(names, managed.name)
	}
	return names
}

// Desired returns one HTTPScaledObject for each trigger that scales by HTTP requests. rollout is the
// ScaledObject's target, or nil if the target is another kind or does not exist. address is the address of the
// agent's scaler.
func Desired(scaled *apis.ScaledObject, rollout *apis.Rollout, address string) []Want {
	if isOwnedByHTTPScaledObject(scaled) {
		return nil
	}
	var wants []Want
	usedNames := map[string]bool{}
	for _, managed := range managedTriggers(scaled, nil, address) {
		want := Want{Name: managed.name}
		where := fmt.Sprintf("spec.triggers[%d]", managed.index)
		if wrong := validation.IsDNS1123Subdomain(managed.name); len(wrong) > 0 {
			want.Name = ""
			want.addProblem(httpv1alpha1.ReasonInvalidName, false, "%s: invalid HTTPScaledObject name "+
				"%.80q: %s; use lower-case letters, digits and hyphens in the trigger's name",
				where, managed.name, wrong[0])
		} else if usedNames[managed.name] {
			want.Name = ""
			want.addProblem(httpv1alpha1.ReasonInvalidName, false, "%s: another trigger already uses "+
				"HTTPScaledObject %q; set a different httpScaledObject in the metadata", where, managed.name)
		}
		usedNames[managed.name] = true
		want.build(scaled, rollout, managed, where)
		wants = append(wants, want)
	}
	return wants
}

// isOwnedByHTTPScaledObject reports whether the operator of the KEDA HTTP add-on created the ScaledObject for an
// HTTPScaledObject.
func isOwnedByHTTPScaledObject(scaled *apis.ScaledObject) bool {
	owner := metav1.GetControllerOf(scaled)
	return owner != nil && owner.Kind == httpv1alpha1.Kind
}

// addProblem appends a problem.
func (w *Want) addProblem(reason string, advisory bool, format string, values ...any) {
	w.Problems = append(w.Problems, Problem{Reason: reason, Message: fmt.Sprintf(format, values...), Advisory: advisory})
}

// build sets the object of a trigger.
func (w *Want) build(
	scaled *apis.ScaledObject, rollout *apis.Rollout, managed managedTrigger, where string,
) {
	if trigger.IsExternal(managed.trigger.Type, managed.trigger.Metadata) {
		w.buildExternal(scaled, managed, where)
		return
	}
	parsed, problems := trigger.Parse(managed.trigger.Metadata)
	stable := stableService(scaled, rollout)
	isInvalid := func(key string) bool {
		return slices.ContainsFunc(problems, func(p trigger.Problem) bool { return p.Key == key && !p.Ignored })
	}
	hasService := !isInvalid(trigger.KeyService)
	w.lacksHeaders = isInvalid(trigger.KeyHeaders) || parsed.HeadersIncomplete
	w.HostsIncomplete, w.PathPrefixesIncomplete = parsed.HostsIncomplete, parsed.PathPrefixesIncomplete
	w.addTriggerProblems(problems, stable, where)
	service, fallback := stable, forwarding{}
	switch {
	case hasService && slices.Contains(parsed.Autowire, trigger.AutowireService):
		fallback = w.forwarding(scaled, rollout, parsed, where)
		service, hasService = fallback.to, fallback.from != "" // an existing object keeps its own
	case hasService:
		service = w.service(scaled, rollout, parsed.Service, where)
	}
	w.guess = target(scaled, service, parsed)
	if hasService = hasService && !parsed.ServiceIncomplete; !hasService {
		w.alternates = alternatingServices(rollout)
	}
	w.incomplete = &httpv1alpha1.HTTPScaledObject{
		ObjectMeta: w.metadata(scaled, trigger.Accepted(managed.trigger.Metadata, problems)),
		Spec: httpv1alpha1.HTTPScaledObjectSpec{
			Hosts: parsed.Hosts, PathPrefixes: parsed.PathPrefixes, Headers: headers(parsed.Headers),
			ScaleTargetRef: withoutGuesses(w.guess, hasService, !parsed.IsPortGuess),
			Replicas:       w.replicas(scaled),
			ScalingMetric:  metric(parsed),
			Timeouts:       timeouts(parsed),
		},
	}
	w.incomplete.Annotations = fallback.annotate(w.incomplete.Annotations)
	if !w.hasErrors() {
		w.Object = w.incomplete.DeepCopy()
		w.Object.Spec.ScaleTargetRef = w.guess
	}
}

// metadata returns the metadata of the object. accepted is the valid metadata of the trigger.
func (w *Want) metadata(scaled *apis.ScaledObject, accepted map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: w.Name, Namespace: scaled.Namespace,
		Labels:          map[string]string{httpv1alpha1.LabelManagedBy: httpv1alpha1.ManagedByAgent},
		Annotations:     annotations(scaled, accepted),
		OwnerReferences: []metav1.OwnerReference{owner(scaled)},
	}
}

// addTriggerProblems appends the problems of a trigger's keys. stable is the Service of the Rollout, empty for none. A
// new object gets it instead of an invalid one, which is then marked as ignored.
func (w *Want) addTriggerProblems(problems []trigger.Problem, stable, where string) {
	for i := range problems {
		problem := &problems[i]
		if problem.Key == trigger.KeyService && !problem.Ignored && stable != "" {
			*problem = problem.Guessed("the stable Service " + stable + " of the Rollout")
		}
		reason := httpv1alpha1.ReasonInvalidTrigger
		if problem.Ignored {
			reason = httpv1alpha1.ReasonKeyIgnored
		}
		w.Problems = append(w.Problems, Problem{
			Reason: reason, Message: fmt.Sprintf("%s.metadata.%s", where, problem), Advisory: problem.Ignored,
			isGuess: problem.IsGuess,
		})
	}
}

// hasErrors reports whether the trigger has a problem that is not only advisory.
func (w *Want) hasErrors() bool {
	return slices.ContainsFunc(w.Problems, func(problem Problem) bool { return !problem.Advisory })
}

// stableService returns the Service of the Rollout that a ScaledObject targets, empty for none.
func stableService(scaled *apis.ScaledObject, rollout *apis.Rollout) string {
	if rollout == nil || !scaled.TargetsRollout() {
		return ""
	}
	return rollout.StableService()
}

// withoutGuesses returns a target without its Service or port, unless they are those of the trigger.
func withoutGuesses(ref httpv1alpha1.ScaleTargetRef, hasService, hasPort bool) httpv1alpha1.ScaleTargetRef {
	if !hasService {
		ref.Service = ""
	}
	if !hasPort {
		ref.Port, ref.PortName = 0, ""
	}
	return ref
}

// alternatingServices returns the Services of which one at a time is the stable Service of a Rollout.
func alternatingServices(rollout *apis.Rollout) []string {
	if rollout == nil || rollout.Spec.Strategy.Canary == nil || rollout.Spec.Strategy.Canary.PingPong == nil {
		return nil
	}
	services := rollout.Spec.Strategy.Canary.PingPong
	return []string{services.PingService, services.PongService}
}

// target returns the reference to the workload and its Service.
func target(
	scaled *apis.ScaledObject, service string, parsed trigger.Trigger,
) httpv1alpha1.ScaleTargetRef {
	workload := scaled.Spec.ScaleTargetRef
	return httpv1alpha1.ScaleTargetRef{
		Name:       workload.Name,
		APIVersion: cmp.Or(workload.APIVersion, "apps/v1"),
		Kind:       cmp.Or(workload.Kind, "Deployment"),
		Service:    service,
		Port:       parsed.Port,
		PortName:   parsed.PortName,
	}
}

// service returns the Service that receives the requests: the trigger's, or the Rollout's.
func (w *Want) service(
	scaled *apis.ScaledObject, rollout *apis.Rollout, service, where string,
) string {
	target := scaled.Spec.ScaleTargetRef
	if !scaled.TargetsRollout() {
		if service == "" {
			w.addProblem(httpv1alpha1.ReasonServiceNotSet, false, "%s.metadata.service: required, because "+
				"the target is %s %q and not a Rollout; set the Service that receives the requests",
				where, cmp.Or(target.Kind, "Deployment"), target.Name)
		}
		return service
	}
	stable := stableService(scaled, rollout)
	switch {
	case service == "" && rollout == nil:
		w.addProblem(httpv1alpha1.ReasonServiceNotSet, false, "%s: Rollout %q, which defines the Service, "+
			"does not exist; create it, or set service in the metadata", where, target.Name)
	case service == "" && stable == "":
		w.addProblem(httpv1alpha1.ReasonServiceNotSet, false, "%s: Rollout %q defines no Service; set its "+
			"spec.strategy.canary.stableService or spec.strategy.blueGreen.activeService, or service "+
			"in the metadata", where, target.Name)
	case service == "":
		return stable
	case stable != "" && stable != service:
		w.addProblem(httpv1alpha1.ReasonServiceMismatch, true, "%s.metadata.service: %q differs from the "+
			"stable Service %q of Rollout %q; remove service to use the Rollout's",
			where, service, stable, target.Name)
	}
	return service
}

// replicas returns the bounds of the replicas.
func (w *Want) replicas(scaled *apis.ScaledObject) *httpv1alpha1.ReplicaRange {
	bound := func(field string, value *int64, fallback int32) *int32 {
		if value == nil {
			return &fallback
		}
		if *value < 0 || *value > math.MaxInt32 {
			w.addProblem(httpv1alpha1.ReasonInvalidTrigger, false,
				"spec.%s: %d is out of range: use a number from 0 to %d", field, *value, math.MaxInt32)
			return nil
		}
		return new(int32(*value))
	}
	return &httpv1alpha1.ReplicaRange{
		Min: bound("minReplicaCount", scaled.Spec.MinReplicaCount, defaultMin),
		Max: bound("maxReplicaCount", scaled.Spec.MaxReplicaCount, defaultMax),
	}
}

// metric returns the metric that the workload scales by.
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

// timeouts returns the timeouts in the trigger, nil if it has none.
func timeouts(parsed trigger.Trigger) *httpv1alpha1.Timeouts {
	field := func(value *time.Duration) *metav1.Duration {
		if value == nil {
			return nil
		}
		return &metav1.Duration{Duration: *value}
	}
	if parsed.ConditionWaitTimeout == nil && parsed.ResponseHeaderTimeout == nil {
		return nil
	}
	return &httpv1alpha1.Timeouts{
		ConditionWait: field(parsed.ConditionWaitTimeout), ResponseHeader: field(parsed.ResponseHeaderTimeout),
	}
}

// headers converts the trigger's header conditions.
func headers(conditions []trigger.Header) []httpv1alpha1.Header {
	var out []httpv1alpha1.Header
	for _, condition := range conditions {
		out = append(out, httpv1alpha1.Header{
			Name: condition.Name, Value: condition.Value,
			ValueWildcard: condition.Wildcard, ValueRegex: condition.Regex,
		})
	}
	return out
}

// owner returns the owner reference to the ScaledObject. It does not set blockOwnerDeletion: that requires a
// permission for the owner's finalizers if the API server enforces it (OwnerReferencesPermissionEnforcement).
func owner(scaled *apis.ScaledObject) metav1.OwnerReference {
	kind := apis.ScaledObjectKind()
	return metav1.OwnerReference{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind,
		Name: scaled.Name, UID: scaled.UID, Controller: new(true),
	}
}
