package resolve

import (
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

// finder returns the Service of a namespace and name, nil when there is none.
type finder func(model.Key) *Service

// serviceIndex finds Services by namespace and name.
type serviceIndex map[model.Key]*Service

// find is a finder.
func (x serviceIndex) find(service model.Key) *Service { return x[service] }

// indexServices makes a serviceIndex.
func indexServices(services []*Service) serviceIndex {
	index := make(serviceIndex, len(services))
	for _, service := range services {
		index[service.Key] = service
	}
	return index
}

// soleWeight is the weight of a backend that has no other beside it; any above zero means the same.
const soleWeight = 100

// hasAnnotation says whether object shares its requests between Services.
func hasAnnotation(object *httpv1alpha1.HTTPScaledObject) bool {
	_, present := object.Annotations[httpv1alpha1.AnnotationWeightedBackends]
	return present
}

// backendsOf returns the backends that object asks for, and what is wrong with them. With mistakes the backends are the object's own Service alone,
// whether it is there or not.
func backendsOf(object *httpv1alpha1.HTTPScaledObject, find finder) ([]model.Backend, []mistake) {
	target := object.Spec.ScaleTargetRef
	own := split.Backend{Service: target.Service, Weight: soleWeight}
	if !hasAnnotation(object) {
		backend, wrong := backendOf(object, own, "spec.scaleTargetRef.service", find, nil)
		return []model.Backend{backend}, wrong
	}
	const field = "annotation " + httpv1alpha1.AnnotationWeightedBackends
	var (
		backends []model.Backend
		mistakes []mistake
	)
	shares, err := split.Parse(object.Annotations[httpv1alpha1.AnnotationWeightedBackends])
	if err != nil {
		mistakes = append(mistakes, mistake{httpv1alpha1.ReasonInvalidWeightedBackends, fmt.Sprintf("%s: %v; %s", field, err, remedy(err))})
	}
	for i, share := range shares {
		backend, wrong := backendOf(object, share, field, find, canaryOf(object, shares, i))
		backends = append(backends, backend)
		mistakes = append(mistakes, wrong...)
	}
	if len(mistakes) > 0 {
		backend, _ := backendOf(object, own, "", find, nil) // whether the own Service is right is not what this object was asked for
		return []model.Backend{backend}, mistakes
	}
	return backends, nil
}

// lastGood returns what an object keeps whose backends cannot be carried out: those in force or, where
// nothing is because the interceptor has just started, those that its status reports to have been. matches is the number of Matches that it has.
// Without the annotation nobody but the own Service is to get anything, so that a split must not come
// back; then, and for want of anything better, it is own.
func lastGood(
	object *httpv1alpha1.HTTPScaledObject, inForce []model.Route, own []model.Backend, find finder, matches int,
) ([]model.Backend, []managedroute.Route) {
	switch {
	case len(inForce) > 0 && (hasAnnotation(object) || len(inForce[0].Backends) == 1):
		return inForce[0].Backends, inForce[0].Managed
	case len(inForce) > 0 || !hasAnnotation(object) || object.Status.DataPlane == nil:
		return own, nil
	}
	shares, err := split.Parse(object.Status.DataPlane.WeightedBackends)
	if err != nil {
		return own, nil
	}
	backends := make([]model.Backend, 0, len(shares))
	for i, share := range shares {
		backend, _ := backendOf(object, share, "", find, canaryOf(object, shares, i)) // One that is gone by now keeps its share, as it would in force.
		backends = append(backends, backend)
	}
	return backends, reportedRoutes(object, len(backends), matches)
}

// reportedRoutes are the header and mirror routes that the status of object reports to have been in force; none where they cannot be carried out for as many
// backends and Matches.
func reportedRoutes(object *httpv1alpha1.HTTPScaledObject, backends, matches int) []managedroute.Route {
	text := object.Status.DataPlane.ManagedRoutes
	if text == "" || backends < 2 {
		return nil
	}
	routes, err := managedroute.Parse(text)
	if err != nil || managedroute.CountMatches(routes)*matches > MaxManaged {
		return nil
	}
	return routes
}

// remedy says what to do about an annotation that cannot be read.
func remedy(err error) string {
	switch {
	case errors.Is(err, split.ErrTooLong), errors.Is(err, split.ErrTooMany):
		return "name fewer Services"
	case errors.Is(err, split.ErrNoWeight):
		return "give at least one Service a weight, or remove the annotation to send everything to spec.scaleTargetRef.service"
	case errors.Is(err, split.ErrEmpty):
		return "remove the annotation to send everything to spec.scaleTargetRef.service"
	default:
		return "write a list such as [{service: shop-stable, weight: 80}, {service: shop-canary, weight: 20}], the stable Service first"
	}
}

// canaryOf names the canary Service where the share of that number is one of an experiment's Services: shares are in the order stable, canary, others.
func canaryOf(object *httpv1alpha1.HTTPScaledObject, shares []split.Backend, number int) *model.Key {
	if number < 2 {
		return nil
	}
	return &model.Key{Namespace: object.Namespace, Name: shares[1].Service}
}

// backendOf finds the Service and port of one share; canary is the canary Service where that is an experiment's. When they cannot be routed to, the backend is one
// without endpoints.
func backendOf(object *httpv1alpha1.HTTPScaledObject, share split.Backend, field string, find finder, canary *model.Key) (model.Backend, []mistake) {
	backend := model.Backend{
		Service:  model.Key{Namespace: object.Namespace, Name: share.Service},
		Weight:   share.Weight,
		Protocol: model.HTTP1,
	}
	service, mistakes := serviceOf(backend.Service, field, find)
	if len(mistakes) > 0 {
		return backend, mistakes
	}
	backend.Service = service.Key // the same, and kept once
	target := portOfTarget(object.Spec.ScaleTargetRef)
	port, wrong := portOf(target, service)
	if wrong != "" && canary != nil {
		port, wrong = experimentPort(target, service, find(*canary), wrong)
	}
	if wrong != "" {
		return backend, []mistake{{httpv1alpha1.ReasonPortNotFound, wrong}}
	}
	backend.Port, backend.Protocol = uint32(port.Number), port.Protocol
	return backend, nil
}

// serviceOf finds a Service that a field names, and says what is wrong with it.
func serviceOf(named model.Key, field string, find finder) (*Service, []mistake) {
	service := find(named)
	switch {
	case service == nil:
		return nil, []mistake{{
			httpv1alpha1.ReasonServiceNotFound,
			fmt.Sprintf("%s: there is no Service %q in namespace %q; create it or name another of this namespace", field, named.Name, named.Namespace),
		}}
	case !service.HasEndpoints:
		return nil, []mistake{{
			httpv1alpha1.ReasonServiceUnsupported,
			fmt.Sprintf("%s: Service %q is of type ExternalName, which has no endpoints; name one that selects pods", field, named.Name),
		}}
	}
	return service, nil
}

// portRef asks for a port of a Service by its number or its name, one of which is set. field is where that is said.
type portRef struct {
	field  string
	number int32
	name   string
}

// portOfTarget is what a target asks for.
func portOfTarget(target httpv1alpha1.ScaleTargetRef) portRef {
	return portRef{"spec.scaleTargetRef", target.Port, target.PortName}
}

// portOf finds the port of service that is asked for. The second result says what is wrong.
func portOf(target portRef, service *Service) (Port, string) {
	if (target.number == 0) == (target.name == "") {
		return Port{}, target.field + ": set exactly one of port and portName"
	}
	for _, port := range service.Ports {
		asked := target.number != 0 && int32(port.Number) == target.number || target.name != "" && port.Name == target.name
		if port.Transport == "" && asked && port.Number > 0 {
			return port, ""
		}
	}
	if target.name != "" {
		return Port{}, fmt.Sprintf("%s.portName: Service %q has no TCP port named %.80q; it has %s: name another or add it",
			target.field, service.Key.Name, target.name, describePorts(service))
	}
	return Port{}, fmt.Sprintf("%s.port: Service %q has no TCP port %d; it has %s: name another or add it",
		target.field, service.Key.Name, target.number, describePorts(service))
}

// experimentPort finds the port of an experiment's Service that takes what the canary's takes. The second result says what is wrong: wrong, where the canary's port is
// not known either.
func experimentPort(target portRef, service, canary *Service, wrong string) (Port, string) {
	if canary == nil {
		return Port{}, wrong
	}
	asked, missing := portOf(target, canary)
	if missing != "" {
		return Port{}, wrong
	}
	port, is := serviceport.For(tcpPorts(canary), int32(asked.Number), tcpPorts(service))
	if !is {
		return Port{}, fmt.Sprintf("spec.scaleTargetRef: Service %q has no TCP port that goes with port %d of Service %q; it has %s: give the experiment's "+
			"template one container port, or one of that number, its name or the name http", service.Key.Name, asked.Number, canary.Key.Name, describePorts(service))
	}
	at := slices.IndexFunc(service.Ports, func(p Port) bool { return int32(p.Number) == port.Number && p.Name == port.Name })
	return service.Ports[at], ""
}

// tcpPorts are the TCP ports of a Service.
func tcpPorts(service *Service) []serviceport.Port {
	var ports []serviceport.Port
	for _, port := range service.Ports {
		if port.Number > 0 && port.Transport == "" {
			ports = append(ports, serviceport.Port{Number: int32(port.Number), Name: port.Name, Target: port.Target})
		}
	}
	return ports
}

// describePorts lists a Service's ports for a message.
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
