package autowire

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// addDestinationRule adds to the behavior of a VirtualService what a DestinationRule of the namespace does to
// connections to a port of a Service. Port HTTP2Port makes Istio use HTTP/2.
func (p *objectPlan) addDestinationRule(found behavior, name string, ref networkingv1.ServiceBackendPort) {
	port := servicePort(ref, p.service(name).Spec.Ports)
	if name == ProxyService && ref.Number == HTTP2Port {
		found[usesHTTP2] = append(found[usesHTTP2], match{text: fmt.Sprintf("port %d", HTTP2Port)})
	}
	rule := p.destinationRule(name)
	if rule == nil {
		return
	}
	settings := trafficSettings(rule, port.Port)
	text := "DestinationRule " + rule.Name
	if tls := settings.TLS; tls != nil && (tls.Mode == apis.TLSSimple || tls.Mode == apis.TLSMutual) {
		with := usesTLS
		if protocol, _ := protocolOf(port); protocol == model.HTTP2 {
			with = usesHTTP2TLS
		}
		found[with] = append(found[with], match{text: text})
	}
	if pool := settings.ConnectionPool; pool != nil && pool.HTTP != nil && pool.HTTP.H2UpgradePolicy == apis.H2Upgrade {
		found[usesHTTP2] = append(found[usesHTTP2], match{text: text + " with h2UpgradePolicy"})
	}
	if balancer := settings.LoadBalancer; balancer != nil && balancer.ConsistentHash != nil {
		by := affinityEffect(balancer.ConsistentHash)
		header := strings.ToLower(balancer.ConsistentHash.HTTPHeaderName)
		found[by] = append(found[by], match{text: text + " with consistentHash", header: header})
	}
}

// affinityEffect returns the effect of a session affinity.
func affinityEffect(hash *apis.ConsistentHash) effect {
	switch {
	case canonicalJSON(hash.HTTPCookie) != "null":
		return sticksByCookie
	case hash.HTTPHeaderName != "":
		return sticksByHeader
	case hash.UseSourceIP:
		return sticksByAddress
	case hash.HTTPQueryParameterName != "":
		return sticks
	}
	return harmless
}

// destinationRule returns the DestinationRule for a Service, or nil: the one with the most specific host, as in Istio
// (MostSpecificHostMatch in pilot/pkg/model/context.go). Istio merges those with the same host, and uses the
// trafficPolicy of the first one. Those of the namespaces of clients and of Istio itself are not read.
func (n *Namespace) destinationRule(service string) *apis.DestinationRule {
	var chosen *apis.DestinationRule
	for i := range n.DestinationRules {
		rule := &n.DestinationRules[i]
		if rule.DeletionTimestamp == nil && n.hostSpecificity(rule.Spec.Host, service) > 0 &&
			(chosen == nil || n.compareRules(rule, chosen, service) < 0) {
			chosen = rule
		}
	}
	return chosen
}

// compareRules is negative if a precedes b for a Service that both match: the more specific host, then the rule with a
// trafficPolicy, then the older one.
func (n *Namespace) compareRules(a, b *apis.DestinationRule, service string) int {
	without := func(rule *apis.DestinationRule) int {
		if rule.Spec.TrafficPolicy == nil {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(n.hostSpecificity(b.Spec.Host, service), n.hostSpecificity(a.Spec.Host, service)),
		cmp.Compare(without(a), without(b)),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Name, b.Name))
}

// hostSpecificity returns how specific the host of a DestinationRule is, or zero if it does not match a Service of the
// namespace.
func (n *Namespace) hostSpecificity(host, service string) int {
	if suffix, isWildcard := strings.CutPrefix(host, "*"); isWildcard {
		inNamespace := "." + n.Name + ".svc."
		if strings.HasPrefix(suffix, inNamespace) || strings.HasSuffix(service+inNamespace+clusterDomain, suffix) {
			return len(host)
		}
		return 0
	}
	if name, _, isHere := splitHost(host, n.Name); !isHere || name != service {
		return 0
	}
	return math.MaxInt
}

// trafficSettings returns the settings of a DestinationRule for a port. Those of a port replace all others.
func trafficSettings(rule *apis.DestinationRule, port int32) apis.TrafficSettings {
	policy := rule.Spec.TrafficPolicy
	if policy == nil {
		return apis.TrafficSettings{}
	}
	for i := range policy.PortLevelSettings {
		if policy.PortLevelSettings[i].Port.Number == int64(port) {
			return policy.PortLevelSettings[i].TrafficSettings
		}
	}
	return policy.TrafficSettings
}

// meshBlocker returns why Istio could not connect to the proxies: a DestinationRule requires the mutual TLS of the mesh,
// and the Pods of proxies are outside of it.
func (p *objectPlan) meshBlocker(to *backend) (reason, message string) {
	rule, port := p.destinationRule(ProxyService), to.service.Port.Number
	if rule == nil {
		return "", ""
	}
	tls := trafficSettings(rule, port).TLS
	if tls == nil || tls.Mode != apis.TLSIstioMutual {
		return "", ""
	}
	return httpv1alpha1.ReasonUnsupportedSetting, fmt.Sprintf(
		"DestinationRule %[1]s requires tls.mode %[2]s for port %[3]d of Service %[4]s, whose Pods are outside of the mesh; "+
			"add a DestinationRule with host %[4]s and trafficPolicy.tls.mode: DISABLE",
		rule.Name, apis.TLSIstioMutual, port, ProxyService)
}
