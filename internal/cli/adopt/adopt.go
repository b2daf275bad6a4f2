package adopt

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// ErrNotAdoptable reports a Rollout that cannot be adopted as it is. The message contains the fix.
var ErrNotAdoptable = errors.New("cannot be adopted")

// Application is a Rollout with the related objects in its namespace.
type Application struct {
	Rollout       *v1alpha1.Rollout
	Services      []corev1.Service
	Ingresses     []networkingv1.Ingress
	Autoscalers   []autoscalingv2.HorizontalPodAutoscaler
	ScaledObjects []facts.ScaledObject
}

// Proposal contains the manifests that make the Rollout use router kedify/http.
type Proposal struct {
	// Objects are to be applied with server-side apply, in this order: the canary Service if it is missing, the
	// ScaledObject, and the Rollout with the router.
	Objects []map[string]any `json:"objects"`
	// Diff contains the changes in the Rollout's spec.strategy.canary, one line each: removed lines begin with "-",
	// added lines with "+", others with a blank.
	Diff []string `json:"diff"`
	// Notes are what a user should know before applying the objects.
	Notes []string `json:"notes,omitempty"`
}

// Propose returns the proposal for an application. It fails with [ErrNotAdoptable] if the Rollout already has a router,
// does not use the canary strategy, or if its Service, hosts or port are ambiguous.
func Propose(app Application) (Proposal, error) {
	canary := app.Rollout.Spec.Strategy.Canary
	switch {
	case canary == nil:
		return Proposal{}, fmt.Errorf("%w: spec.strategy.canary is missing: use the canary strategy first",
			ErrNotAdoptable)
	case canary.TrafficRouting != nil:
		return Proposal{}, fmt.Errorf("%w: spec.strategy.canary.trafficRouting already configures a router: finish "+
			"the canary and remove the field first", ErrNotAdoptable)
	case canary.PingPong != nil:
		return Proposal{}, fmt.Errorf("%w: spec.strategy.canary.pingPong: requires a router that is already configured",
			ErrNotAdoptable)
	}
	for _, object := range app.ScaledObjects {
		if target := object.Spec.ScaleTargetRef; target.Kind == "Rollout" && target.Name == app.Rollout.Name {
			return Proposal{}, fmt.Errorf("%w: ScaledObject %s already scales it: add a trigger of type %s to the "+
				"ScaledObject (docs/reference/agent.md)",
				ErrNotAdoptable, object.Name, facts.TriggerType)
		}
	}
	stable, err := app.stableService()
	if err != nil {
		return Proposal{}, err
	}
	p := &proposer{Application: app, stable: stable}
	canaryService := p.canaryService()
	if err := p.scaledObject(); err != nil {
		return Proposal{}, err
	}
	if err := p.rollout(canaryService); err != nil {
		return Proposal{}, err
	}
	return p.Proposal, nil
}

// stableService returns the Service that serves the Rollout now.
func (a *Application) stableService() (*corev1.Service, error) {
	configured := a.Rollout.Spec.Strategy.Canary.StableService
	pods := labels.Set(a.Rollout.Spec.Template.Labels)
	var candidates []*corev1.Service
	for i := range a.Services {
		service := &a.Services[i]
		selectsPods := len(service.Spec.Selector) > 0 && labels.SelectorFromSet(service.Spec.Selector).Matches(pods) &&
			service.Name != a.Rollout.Spec.Strategy.Canary.CanaryService
		if service.Name == configured || configured == "" && selectsPods {
			candidates = append(candidates, service)
		}
	}
	switch {
	case len(candidates) == 1:
		return candidates[0], nil
	case configured != "":
		return nil, fmt.Errorf("%w: spec.strategy.canary.stableService: Service %s does not exist", ErrNotAdoptable,
			configured)
	case len(candidates) == 0:
		return nil, fmt.Errorf("%w: no Service selects its Pods: create one, or set spec.strategy.canary.stableService",
			ErrNotAdoptable)
	}
	var names []string
	for _, service := range candidates {
		names = append(names, service.Name)
	}
	return nil, fmt.Errorf("%w: Services %s select its Pods: set spec.strategy.canary.stableService to the one that "+
		"receives the requests",
		ErrNotAdoptable, strings.Join(names, ", "))
}

// proposer builds a proposal.
type proposer struct {
	Application
	Proposal

	stable *corev1.Service
}

// addObject adds an object in the Rollout's namespace.
func (p *proposer) addObject(apiVersion, kind, name string, annotations map[string]any, fields map[string]any) {
	metadata := map[string]any{"name": name, "namespace": p.Rollout.Namespace}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	object := map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": metadata}
	maps.Copy(object, fields)
	p.Objects = append(p.Objects, object)
}

// canaryService returns the name of the canary Service, and adds the Service if it is missing. It has the ports and the
// selector of the stable Service; the controller adds the pod template hash to both selectors.
func (p *proposer) canaryService() string {
	name := p.Rollout.Spec.Strategy.Canary.CanaryService
	if name == "" {
		name = p.stable.Name + "-canary"
	}
	if slices.ContainsFunc(p.Services, func(s corev1.Service) bool { return s.Name == name }) {
		return name
	}
	var ports []any
	for _, port := range p.stable.Spec.Ports {
		entry := map[string]any{"port": port.Port, "targetPort": port.TargetPort, "protocol": port.Protocol}
		if port.Name != "" {
			entry["name"] = port.Name
		}
		ports = append(ports, entry)
	}
	selector := maps.Clone(p.stable.Spec.Selector)
	delete(selector, v1alpha1.DefaultRolloutUniqueLabelKey)
	p.addObject("v1", "Service", name, nil, map[string]any{"spec": map[string]any{
		"ports":    ports,
		"selector": selector,
	}})
	return name
}

// scaledObject adds the ScaledObject.
func (p *proposer) scaledObject() error {
	metadata, err := p.trigger()
	if err != nil {
		return err
	}
	rollout := p.Rollout
	replicas := int32(1)
	if rollout.Spec.Replicas != nil {
		replicas = *rollout.Spec.Replicas
	}
	spec := map[string]any{
		"scaleTargetRef": map[string]any{
			"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout",
			"name": rollout.Name,
		},
		"minReplicaCount": max(1, replicas), "maxReplicaCount": max(10, replicas),
	}
	triggers := []any{map[string]any{"type": facts.TriggerType, "metadata": metadata}}
	var annotations map[string]any
	for i := range p.Autoscalers {
		autoscaler := &p.Autoscalers[i]
		if target := autoscaler.Spec.ScaleTargetRef; target.Kind != "Rollout" || target.Name != rollout.Name {
			continue
		}
		annotations = map[string]any{"scaledobject.keda.sh/transfer-hpa-ownership": "true"}
		triggers = append(triggers, p.transferHPA(autoscaler, spec)...)
		break
	}
	spec["triggers"] = triggers
	p.addObject("keda.sh/v1alpha1", "ScaledObject", rollout.Name, annotations, map[string]any{"spec": spec})
	p.Notes = append(p.Notes,
		trigger.KeyTargetValue+" of the trigger is the default, in requests per second and replica: measure how "+
			"many one of your replicas can serve")
	return nil
}

// transferHPA copies the settings of an autoscaler to the spec of a ScaledObject, and returns triggers for its other
// metrics (https://keda.sh/docs/latest/reference/scaledobject-spec/, transfer-hpa-ownership and
// horizontalPodAutoscalerConfig.name).
func (p *proposer) transferHPA(autoscaler *autoscalingv2.HorizontalPodAutoscaler, spec map[string]any) []any {
	config := map[string]any{"name": autoscaler.Name}
	if autoscaler.Spec.Behavior != nil {
		config["behavior"] = autoscaler.Spec.Behavior
	}
	spec["advanced"] = map[string]any{"horizontalPodAutoscalerConfig": config}
	spec["maxReplicaCount"], spec["minReplicaCount"] = autoscaler.Spec.MaxReplicas, int32(1)
	if autoscaler.Spec.MinReplicas != nil {
		spec["minReplicaCount"] = *autoscaler.Spec.MinReplicas
	}
	var triggers []any
	for _, metric := range autoscaler.Spec.Metrics {
		if metric.Resource != nil && metric.Resource.Target.AverageUtilization != nil {
			triggers = append(triggers, map[string]any{
				"type": string(metric.Resource.Name), "metricType": string(autoscalingv2.UtilizationMetricType),
				"metadata": map[string]any{"value": strconv.Itoa(int(*metric.Resource.Target.AverageUtilization))},
			})
			continue
		}
		p.Notes = append(p.Notes,
			fmt.Sprintf("a metric of type %[2]s of HorizontalPodAutoscaler %[1]s is not converted: add a KEDA "+
				"trigger for it",
				autoscaler.Name, metric.Type))
	}
	p.Notes = append(p.Notes,
		fmt.Sprintf("KEDA takes over and overwrites HorizontalPodAutoscaler %s: remove it from the source that you "+
			"apply it from, e.g. Git", autoscaler.Name))
	return triggers
}

// trigger returns the metadata of the trigger: the hosts, paths and port of the Ingress rules for the stable Service.
func (p *proposer) trigger() (map[string]any, error) {
	hosts, paths, ports := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i := range p.Ingresses {
		for _, rule := range p.Ingresses[i].Spec.Rules {
			if rule.HTTP == nil {
				continue
			}
			for _, path := range rule.HTTP.Paths {
				if service := path.Backend.Service; service != nil && service.Name == p.stable.Name {
					hosts[hostOrAny(rule.Host)], paths[pathOrRoot(path.Path)] = true, true
					ports[p.port(service.Port)] = true
				}
			}
		}
	}
	switch {
	case len(hosts) == 0:
		return nil, fmt.Errorf("%w: no Ingress in the namespace references Service %s, so its hosts and paths are "+
			"unknown: write the ScaledObject manually (docs/reference/agent.md)",
			ErrNotAdoptable, p.stable.Name)
	case len(ports) > 1 || ports[""]:
		return nil, fmt.Errorf("%w: Ingresses reference several ports of Service %s, or one that it does not have: "+
			"a trigger supports one port",
			ErrNotAdoptable, p.stable.Name)
	}
	joined := func(set map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(set)), ",") }
	return map[string]any{
		trigger.KeyHosts: joined(hosts), trigger.KeyPathPrefixes: joined(paths), trigger.KeyPort: joined(ports),
		trigger.KeyScalingMetric: "requestRate", trigger.KeyTargetValue: "100", trigger.KeyTrafficAutowire: "ingress",
	}, nil
}

// port returns the number of a port of the stable Service. It is empty if the Service has no such port.
func (p *proposer) port(backend networkingv1.ServiceBackendPort) string {
	for _, port := range p.stable.Spec.Ports {
		if backend.Name == "" && port.Port == backend.Number || backend.Name != "" && port.Name == backend.Name {
			return strconv.Itoa(int(port.Port))
		}
	}
	return ""
}

// hostOrAny returns the host, or "*" if it is empty.
func hostOrAny(host string) string {
	if host == "" {
		return "*"
	}
	return host
}

// pathOrRoot returns the path, or "/" if it is empty.
func pathOrRoot(path string) string {
	if path == "" {
		return "/"
	}
	return path
}

// rollout adds the Rollout with the router. It contains all fields of the live Rollout: otherwise server-side apply
// would remove the missing ones.
func (p *proposer) rollout(canaryService string) error {
	added := map[string]any{
		"stableService": p.stable.Name, "canaryService": canaryService,
		"trafficRouting": map[string]any{"plugins": map[string]any{
			facts.HTTPRouter: map[string]any{"httpScaledObjectName": p.Rollout.Name},
		}},
	}
	before, err := toMap(p.Rollout.Spec.Strategy.Canary)
	if err != nil {
		return err
	}
	after := maps.Clone(before)
	maps.Copy(after, added)
	spec, err := toMap(p.Rollout.Spec)
	if err != nil {
		return err
	}
	spec["strategy"] = map[string]any{"canary": after}
	if p.Rollout.Spec.WorkloadRef != nil {
		delete(spec, "template")
	}
	annotations := map[string]any{}
	for name, value := range p.Rollout.Annotations {
		// kubectl and the controller write these annotations.
		if name != corev1.LastAppliedConfigAnnotation && !strings.HasPrefix(name, "rollout.argoproj.io/") {
			annotations[name] = value
		}
	}
	p.addObject("argoproj.io/v1alpha1", "Rollout", p.Rollout.Name, annotations, map[string]any{"spec": spec})
	if len(p.Rollout.Labels) > 0 {
		p.Objects[len(p.Objects)-1]["metadata"].(map[string]any)["labels"] = p.Rollout.Labels
	}
	if len(p.Rollout.Spec.Strategy.Canary.Steps) == 0 {
		p.Notes = append(p.Notes,
			"spec.strategy.canary.steps is empty: without a setWeight step the canary gets no requests")
	}
	p.Diff, err = diff(before, after)
	return err
}
