package autowire

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// Classes are the IngressClasses of the cluster.
type Classes struct {
	// byName are the classes by name.
	byName map[string]class
	// byDefault is the name of the class of Ingresses without one, or empty.
	byDefault string
}

// class is an IngressClass.
type class struct {
	controller    string
	hasParameters bool
}

// ClassesOf returns the Classes for a list of IngressClasses. Of several default ones, the newest applies, and of
// several of the same age the first by name, as in the API server (plugin DefaultIngressClass).
func ClassesOf(classes []networkingv1.IngressClass) Classes {
	all := Classes{byName: map[string]class{}}
	var created time.Time
	for i := range classes {
		current := &classes[i]
		all.byName[current.Name] = class{current.Spec.Controller, current.Spec.Parameters != nil}
		if current.Annotations[networkingv1.AnnotationIsDefaultIngressClass] != isTrue {
			continue
		}
		made := current.CreationTimestamp.Time
		if all.byDefault == "" || made.After(created) || made.Equal(created) && current.Name < all.byDefault {
			all.byDefault, created = current.Name, made
		}
	}
	return all
}

// of returns the class of an Ingress, which may be the default one, and reports whether it exists.
func (c Classes) of(ingress *Object) (found class, isKnown bool) {
	found, isKnown = c.byName[cmp.Or(ingress.class, c.byDefault)]
	return found, isKnown
}

// loadBalancer is a controller that uses NodePorts of Services.
type loadBalancer struct {
	name string
	// controllers are its names in IngressClasses. classes are its Ingress classes, which need no IngressClass.
	// annotations are those by which its Ingresses are recognized, too.
	controllers, classes, annotations []string
	// fix is the annotation that makes it use Pods instead, on Service kedify-proxy.
	fix string
}

// loadBalancer returns the controller of the Ingress if it uses NodePorts, or nil. The controller of its IngressClass
// decides, if the class exists, and otherwise the name of the class or an annotation.
func (p *objectPlan) loadBalancer() *loadBalancer {
	ofObject, isKnown := p.Classes.of(p.object)
	annotations := p.object.meta.GetAnnotations()
	for _, candidate := range loadBalancers() {
		isAnnotated := slices.ContainsFunc(candidate.annotations, func(pattern string) bool {
			return len(matchNames(annotations, pattern, "")) > 0
		})
		isNamed := slices.Contains(candidate.classes, p.object.class) || isAnnotated
		decides := isKnown && (p.object.class != "" || !isAnnotated) // a class may become the default one later
		if decides && slices.Contains(candidate.controllers, ofObject.controller) || !decides && isNamed {
			return &candidate
		}
	}
	return nil
}

// traefikController is the controller of Traefik in IngressClasses. Its Helm chart names the class after the release.
const traefikController = "traefik.io/ingress-controller"

// isOfTraefik reports whether Traefik is the controller of an Ingress.
func (p *objectPlan) isOfTraefik() bool {
	ofObject, isKnown := p.Classes.of(p.object)
	return p.object.kind == trigger.AutowireIngress && (ofObject.controller == traefikController ||
		!isKnown && strings.HasPrefix(p.object.class, "traefik"))
}

// serviceTypeBlocker returns why the load balancer of an Ingress cannot use Service kedify-proxy because of its type.
func (p *objectPlan) serviceTypeBlocker() (reason, message string) {
	kind := p.service(ProxyService).Spec.Type
	if p.object.kind != trigger.AutowireIngress || p.toProxies.find(reachesPods) != nil ||
		kind == corev1.ServiceTypeNodePort || kind == corev1.ServiceTypeLoadBalancer {
		return "", ""
	}
	balancer := p.loadBalancer()
	if balancer == nil {
		return "", ""
	}
	message = fmt.Sprintf(
		"%s needs a Service of type NodePort, and Service %s is none; set its spec.type to NodePort, or %s on it",
		balancer.name, ProxyService, balancer.fix)
	name := cmp.Or(p.object.class, p.Classes.byDefault)
	if p.Classes.byName[name].hasParameters {
		message += ", even if the parameters of IngressClass " + name + " contain it, which the agent does not read"
	}
	return httpv1alpha1.ReasonServiceTypeMismatch, message
}
