package resolve

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
	"github.com/kedify/argo-rollouts-plugin/internal/model/serviceport"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
)

// serviceLookup returns a Service, nil if it does not exist.
type serviceLookup func(model.Key) *Service

// serviceIndex maps names to Services.
type serviceIndex map[model.Key]*Service

// lookup is a serviceLookup.
func (x serviceIndex) lookup(service model.Key) *Service { return x[service] }

// indexServices returns the serviceIndex of a list.
func indexServices(services []*Service) serviceIndex {
	index := make(serviceIndex, len(services))
	for _, service := range services {
		index[service.Key] = service
	}
	return index
}

// singleWeight is the weight of a backend without alternatives. Any value above zero has the same effect.
const singleWeight = 100

// hasWeightedBackends reports whether the object splits its requests between Services.
func hasWeightedBackends(object *httpv1alpha1.HTTPScaledObject) bool {
	_, present := object.Annotations[httpv1alpha1.AnnotationWeightedBackends]
	return present
}

// backendsOf returns the backends that the object requests and the issues of the request. If there are issues, it
// returns only the object's own Service, even if that Service does not exist.
func backendsOf(object *httpv1alpha1.HTTPScaledObject, lookup serviceLookup) ([]model.Backend, []issue) {
	ownEntry := split.Backend{Service: object.Spec.ScaleTargetRef.Service, Weight: singleWeight}
	own := backendResolver{object, lookup, inheritedSettings(object).Protocol()}
	if !hasWeightedBackends(object) {
		backend, entryIssues := own.resolve(ownEntry, targetField(object)+".service", nil)
		return []model.Backend{backend}, entryIssues
	}
	const field = "annotation " + httpv1alpha1.AnnotationWeightedBackends
	var issues []issue
	entries, err := split.Parse(object.Annotations[httpv1alpha1.AnnotationWeightedBackends])
	if err != nil {
		issues = append(issues, issue{
			httpv1alpha1.ReasonInvalidWeightedBackends,
			fmt.Sprintf("%s: %v: %s", field, err, fixOf(err, targetField(object))),
		})
	}
	backends, entryIssues := resolveEntries(object, entries, field, lookup)
	if issues = append(issues, entryIssues...); len(issues) > 0 {
		backend, _ := own.resolve(ownEntry, "", nil) // Issues of the own Service are irrelevant here.
		return []model.Backend{backend}, issues
	}
	return backends, nil
}

// lastGood returns the backends that an object with invalid backends keeps: the published ones. After a restart of
// the interceptor none are published, and the ones in the object's status count. matches is the number of the
// object's Matches. Without the annotation only the object's own Service may receive requests, so a previous split
// must not return. In this case, and as the last resort, lastGood returns fallback.
func lastGood(
	object *httpv1alpha1.HTTPScaledObject, published []model.Route, fallback []model.Backend, lookup serviceLookup,
	matches int,
) ([]model.Backend, []managedroute.Route) {
	switch {
	case len(published) > 0 && (hasWeightedBackends(object) || len(published[0].Backends) == 1):
		return published[0].Backends, published[0].Managed
	case len(published) > 0 || !hasWeightedBackends(object) || object.Status.DataPlane == nil:
		return fallback, nil
	}
	entries, err := split.Parse(object.Status.DataPlane.WeightedBackends)
	if err != nil {
		return fallback, nil
	}
	// A deleted Service keeps its weight, as a published one does.
	backends, _ := resolveEntries(object, entries, "", lookup)
	return backends, reportedManagedRoutes(object, len(backends), matches)
}

// reportedManagedRoutes returns the header and mirror routes in the object's status. It returns none if they are
// invalid for this number of backends and Matches.
func reportedManagedRoutes(object *httpv1alpha1.HTTPScaledObject, backends, matches int) []managedroute.Route {
	text := object.Status.DataPlane.ManagedRoutes
	if text == "" || backends < 2 {
		return nil
	}
	routes, err := managedroute.Parse(text)
	if err != nil || managedroute.CountMatches(routes)*matches > MaxManagedRoutes {
		return nil
	}
	return routes
}

// fixOf returns the fix for an error of split.Parse. target is the field that references the object's own Service.
func fixOf(err error, target string) string {
	switch {
	case errors.Is(err, split.ErrTooLong), errors.Is(err, split.ErrTooMany):
		return "name fewer Services"
	case errors.Is(err, split.ErrNoWeight):
		return "set at least one weight above 0, or remove the annotation to send all requests to " + target + ".service"
	case errors.Is(err, split.ErrEmpty):
		return "remove the annotation to send all requests to " + target + ".service"
	default:
		return "write a list such as [{service: shop-stable, weight: 80}, {service: shop-canary, weight: 20}], the stable " +
			"Service first"
	}
}

// experimentCanary returns the canary Service if the entry of that index is a Service of an experiment, otherwise
// nil. The order of entries is stable, canary, others.
func experimentCanary(object *httpv1alpha1.HTTPScaledObject, entries []split.Backend, index int) *model.Key {
	if index < 2 {
		return nil
	}
	return &model.Key{Namespace: object.Namespace, Name: entries[1].Service}
}

// resolveEntries returns the backends of the entries of a split, and the issues of field, which contains them.
func resolveEntries(
	object *httpv1alpha1.HTTPScaledObject, entries []split.Backend, field string, lookup serviceLookup,
) ([]model.Backend, []issue) {
	var issues []issue
	backends := make([]model.Backend, 0, len(entries))
	resolver := backendResolver{object, lookup, sharedProtocol(object, entries, lookup)}
	for i, entry := range entries {
		backend, entryIssues := resolver.resolve(entry, field, experimentCanary(object, entries, i))
		backends, issues = append(backends, backend), append(issues, entryIssues...)
	}
	return backends, issues
}

// sharedProtocol returns the protocol of the entries whose ports select none, because the versions of an application
// speak the same protocol. It is that of the object's own Service, otherwise that of the first entry. If neither
// selects one, it is the inherited one, otherwise HTTP/1.1.
func sharedProtocol(
	object *httpv1alpha1.HTTPScaledObject, entries []split.Backend, lookup serviceLookup,
) model.Protocol {
	target := object.Spec.ScaleTargetRef
	names := []string{target.Service}
	if len(entries) > 0 {
		names = append(names, entries[0].Service)
	}
	for _, name := range names {
		service := lookup(model.Key{Namespace: object.Namespace, Name: name})
		if service == nil {
			continue
		}
		if port, problem := portOf(portOfTarget(object), service); problem == "" && port.Protocol != "" {
			return port.Protocol
		}
	}
	return inheritedSettings(object).Protocol()
}

// backendResolver resolves the backends of one object.
type backendResolver struct {
	object *httpv1alpha1.HTTPScaledObject
	lookup serviceLookup
	// protocol is the protocol of ports that select none.
	protocol model.Protocol
}

// resolve resolves the Service and port of one entry. canary is the canary Service if the entry belongs to an
// experiment. If the entry cannot be resolved, the backend has no endpoints.
func (r backendResolver) resolve(entry split.Backend, field string, canary *model.Key) (model.Backend, []issue) {
	backend := model.Backend{
		Service:  model.Key{Namespace: r.object.Namespace, Name: entry.Service},
		Weight:   entry.Weight,
		Protocol: model.HTTP1,
	}
	service, issues := serviceOf(backend.Service, field, r.lookup)
	if len(issues) > 0 {
		return backend, issues
	}
	backend.Service = service.Key // the same text, to store it once
	target := portOfTarget(r.object)
	port, problem := portOf(target, service)
	if problem != "" && canary != nil {
		port, problem = experimentPort(target, service, r.lookup(*canary), problem)
	}
	if problem != "" {
		return backend, []issue{{httpv1alpha1.ReasonPortNotFound, problem}}
	}
	backend.Port, backend.Protocol = uint32(port.Number), cmp.Or(port.Protocol, r.protocol)
	return backend, nil
}

// serviceOf returns the Service that a field names, or the issue if it cannot be used.
func serviceOf(key model.Key, field string, lookup serviceLookup) (*Service, []issue) {
	service := lookup(key)
	switch {
	case service == nil:
		return nil, []issue{{
			httpv1alpha1.ReasonServiceNotFound,
			fmt.Sprintf("%s: Service %q not found in namespace %q: create it or name another Service of the namespace", field,
				key.Name, key.Namespace),
		}}
	case !service.HasEndpoints:
		return nil, []issue{{
			httpv1alpha1.ReasonServiceUnsupported,
			fmt.Sprintf("%s: Service %q is of type ExternalName, which has no endpoints: name a Service that selects Pods",
				field, key.Name),
		}}
	}
	return service, nil
}

// portRef references a port of a Service by number or by name; exactly one must be set. field is the referencing
// field.
type portRef struct {
	field  string
	number int32
	name   string
}

// targetField returns the field that references the object's own Service.
func targetField(object *httpv1alpha1.HTTPScaledObject) string {
	if object.Spec.Converted != nil {
		return "spec.target"
	}
	return "spec.scaleTargetRef"
}

// portOfTarget returns the port reference of the object's own Service.
func portOfTarget(object *httpv1alpha1.HTTPScaledObject) portRef {
	target := object.Spec.ScaleTargetRef
	return portRef{targetField(object), target.Port, target.PortName}
}

// portOf returns the referenced port of a Service. The second result is the problem, "" for none.
func portOf(target portRef, service *Service) (Port, string) {
	if (target.number == 0) == (target.name == "") {
		return Port{}, target.field + ": set exactly one of port and portName"
	}
	for _, port := range service.Ports {
		isMatch := target.number != 0 && int32(port.Number) == target.number || target.name != "" && port.Name == target.name
		if port.Transport == "" && isMatch && port.Number > 0 {
			return port, ""
		}
	}
	if target.name != "" {
		return Port{}, fmt.Sprintf("%s.portName: Service %q has no TCP port named %.80q, it has %s: name another port or "+
			"add this one",
			target.field, service.Key.Name, target.name, describePorts(service))
	}
	return Port{}, fmt.Sprintf("%s.port: Service %q has no TCP port %d, it has %s: name another port or add this one",
		target.field, service.Key.Name, target.number, describePorts(service))
}

// experimentPort returns the port of an experiment's Service that corresponds to the canary's port. The second result
// is the problem, "" for none. It is the given problem if the canary's port is unknown too.
func experimentPort(target portRef, service, canary *Service, problem string) (Port, string) {
	if canary == nil {
		return Port{}, problem
	}
	canaryPort, missing := portOf(target, canary)
	if missing != "" {
		return Port{}, problem
	}
	port, ok := serviceport.For(tcpPorts(canary), int32(canaryPort.Number), tcpPorts(service))
	if !ok {
		return Port{}, fmt.Sprintf("%s: Service %q has no TCP port that matches port %d of Service %q, "+
			"it has %s: give the experiment's "+
			"template one container port, or one of that number, its name or the name http",
			target.field, service.Key.Name, canaryPort.Number, canary.Key.Name, describePorts(service))
	}
	index := slices.IndexFunc(service.Ports,
		func(p Port) bool { return int32(p.Number) == port.Number && p.Name == port.Name })
	return service.Ports[index], ""
}

// tcpPorts returns the TCP ports of a Service.
func tcpPorts(service *Service) []serviceport.Port {
	var ports []serviceport.Port
	for _, port := range service.Ports {
		if port.Number > 0 && port.Transport == "" {
			ports = append(ports, serviceport.Port{Number: int32(port.Number), Name: port.Name, Target: port.Target})
		}
	}
	return ports
}

// describePorts formats the ports of a Service for a message.
func describePorts(service *Service) string {
	var texts []string
	for _, port := range service.Ports {
		text := strconv.Itoa(int(port.Number))
		if port.Name != "" {
			text += " (" + port.Name + ")"
		}
		if port.Transport != "" {
			text += " " + string(port.Transport)
		}
		texts = append(texts, text)
	}
	const limit = 5
	switch {
	case len(texts) == 0:
		return "none"
	case len(texts) > limit:
		return strings.Join(texts[:limit], ", ") + fmt.Sprintf(" and %d more", len(texts)-limit)
	}
	return strings.Join(texts, ", ")
}
