package autowire

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// fallbackRetention is how long an unused fallback Service stays. Proxies send requests to its endpoints until they have
// acknowledged others.
const fallbackRetention = 30 * time.Second

// ServiceChange is the change of a fallback Service, which selects the application's Pods while another one, of which it
// is a copy, selects the proxies. One of Apply and Delete is set.
type ServiceChange struct {
	// Apply is the desired Service. It has a UID if the agent's Service exists.
	Apply *corev1.Service
	// Delete is the unused Service, as it was read.
	Delete *corev1.Service
}

// forwardService returns the Service to which the proxies forward while autowiring has taken over AutowireService.
func (t *Target) forwardService() string { return nonEmpty(t.Fallback, t.Service) }

// planServices returns the changes of the fallback Services, sorted by name, and when to plan again.
func (n *Namespace) planServices(plans []*objectPlan) (changes []ServiceChange, requeueAfter time.Duration) {
	wanted := n.wantedFallbacks(plans)
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		want, current := wanted[name], n.Services[name]
		if current != nil {
			if want.UID = current.UID; !isFallback(current) || !differs(current, want) {
				continue
			}
		}
		changes = append(changes, ServiceChange{Apply: want})
	}
	for _, name := range slices.Sorted(maps.Keys(n.Services)) {
		current := n.Services[name]
		if current == nil || wanted[name] != nil || !isFallback(current) || n.isForwardedTo(name) {
			continue
		}
		change, rest := n.unusedFallback(current)
		if change.Apply != nil || change.Delete != nil {
			changes = append(changes, change)
		}
		requeueAfter = earlier(requeueAfter, rest)
	}
	return changes, requeueAfter
}

// wantedFallbacks returns the desired fallback Services by name: those of Services that the agent may take over, and of
// those that HTTPScaledObjects forward to.
func (n *Namespace) wantedFallbacks(plans []*objectPlan) map[string]*corev1.Service {
	wanted := map[string]*corev1.Service{}
	for _, current := range plans {
		if current.object.kind != trigger.AutowireService || current.recordIssue != "" {
			continue
		}
		original := &current.originalBackends(current.originals)[0]
		service := n.service(original.service.Name)
		for _, target := range current.targetsOf(original) {
			name := target.forwardService()
			isUsed := n.Services[name] != nil && len(original.selection.selector) > 0
			if name != service.Name && (isUsed || serviceIssue(service, original.selection) == "") {
				wanted[name] = fallbackOf(service, original.selection, n.Name, name)
			}
		}
	}
	return wanted
}

// isFallback reports whether a Service is a fallback Service of the agent: its owner is the Service of which it is a
// copy.
func isFallback(service *corev1.Service) bool {
	return isManaged(service) && service.DeletionTimestamp == nil && len(service.OwnerReferences) == 1 &&
		service.OwnerReferences[0].Kind == serviceKind
}

// serviceKind is the kind of Services.
const serviceKind = "Service"

// isForwardedTo reports whether an HTTPScaledObject forwards to a Service.
func (n *Namespace) isForwardedTo(name string) (is bool) {
	n.eachObject(func(object *Target) {
		is = is || object.Service == name || slices.Contains(object.Weighted, name)
	})
	return is
}

// fallbackOf returns the fallback Service for another one with the given selection. It is deleted with that one.
func fallbackOf(service *corev1.Service, original *selection, namespace, name string) *corev1.Service {
	made := &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: serviceKind},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			Labels: map[string]string{httpv1alpha1.LabelManagedBy: httpv1alpha1.ManagedByAgent},
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: serviceKind, Name: service.Name, UID: service.UID},
			},
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, Selector: original.selector, SessionAffinity: service.Spec.SessionAffinity,
			IPFamilyPolicy: service.Spec.IPFamilyPolicy, IPFamilies: service.Spec.IPFamilies,
		},
	}
	for _, port := range original.ports {
		port.NodePort, port.TargetPort = 0, targetOf(port)
		made.Spec.Ports = append(made.Spec.Ports, port)
	}
	return made
}

// differs reports whether a fallback Service differs from the desired one.
func differs(current, want *corev1.Service) bool {
	ofAgent := func(service *corev1.Service) corev1.ServiceSpec {
		return corev1.ServiceSpec{
			Type: service.Spec.Type, Selector: service.Spec.Selector, SessionAffinity: service.Spec.SessionAffinity,
			IPFamilyPolicy: service.Spec.IPFamilyPolicy, IPFamilies: service.Spec.IPFamilies, Ports: service.Spec.Ports,
		}
	}
	return !equality.Semantic.DeepEqual(ofAgent(current), ofAgent(want)) ||
		current.Annotations[httpv1alpha1.AnnotationProxyUnneeded] != "" ||
		current.OwnerReferences[0].UID != want.OwnerReferences[0].UID
}

// unusedFallback returns the change of a fallback Service to which nothing forwards, and when to plan again: it stays for
// fallbackRetention.
func (n *Namespace) unusedFallback(current *corev1.Service) (change ServiceChange, requeueAfter time.Duration) {
	text, isMarked := current.Annotations[httpv1alpha1.AnnotationProxyUnneeded]
	since, err := time.Parse(time.RFC3339, text)
	rest := fallbackRetention - n.Now.Sub(since)
	switch {
	case isMarked && err == nil && rest > 0 && rest <= fallbackRetention+time.Second: // times have full seconds
		return ServiceChange{}, rest
	case isMarked:
		return ServiceChange{Delete: current}, 0
	}
	owner := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Name: current.OwnerReferences[0].Name, UID: current.OwnerReferences[0].UID,
	}, Spec: current.Spec}
	marked := fallbackOf(owner, &selection{current.Spec.Selector, current.Spec.Ports}, n.Name, current.Name)
	marked.UID = current.UID
	marked.Annotations = map[string]string{httpv1alpha1.AnnotationProxyUnneeded: n.Now.UTC().Format(time.RFC3339)}
	return ServiceChange{Apply: marked}, fallbackRetention
}
