package status_test

import (
	"fmt"
	"sync"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/ir"
	"github.com/kedify/argo-rollouts-plugin/internal/status"
	"github.com/kedify/argo-rollouts-plugin/internal/translate"
)

// proxies plays the discovery server of one replica and the proxies that are connected to it. It is a status.Source.
type proxies struct {
	mu        sync.Mutex
	published map[string]map[string]string // version by type URL and name
	streams   map[string]map[string]map[string]status.Confirmation
	numbers   map[string]uint64
	refused   []status.Culprit // of every proxy
	changed   chan struct{}
}

func newProxies() *proxies {
	return &proxies{streams: map[string]map[string]map[string]status.Confirmation{}, numbers: map[string]uint64{}, changed: make(chan struct{}, 1)}
}

// publish sets what is published: the version of every cluster and load assignment of config, and of
// every scope, which is its content.
func (p *proxies) publish(config ir.Config) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.published = map[string]map[string]string{
		resourcev3.ScopedRouteType: {}, resourcev3.ClusterType: {}, resourcev3.EndpointType: {},
	}
	for _, route := range config.Routes {
		for _, backend := range route.Backends {
			name := translate.ClusterName(route.Owner, backend.Service)
			p.published[resourcev3.ClusterType][name] = "c"
			p.published[resourcev3.EndpointType][name] = "e"
		}
		weights := ir.EffectiveWeights(route.Backends, config.Services)
		p.published[resourcev3.ScopedRouteType][translate.ScopeOf(route.Match.Host)] += fmt.Sprint(route.Owner, route.Match, weights)
	}
}

// confirm has a proxy confirm everything that is published; one that was not connected before connects.
func (p *proxies) confirm(peer string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	confirmed := map[string]map[string]status.Confirmation{}
	for typeURL, versions := range p.published {
		confirmed[typeURL] = map[string]status.Confirmation{}
		for name, version := range versions {
			confirmed[typeURL][name] = status.Confirmation{Acked: version, InSync: true}
		}
	}
	if p.numbers[peer] == 0 {
		p.numbers[peer] = uint64(len(p.numbers) + 1)
	}
	p.streams[peer] = confirmed
	p.signal()
}

// answer sets what a proxy has answered about one resource.
func (p *proxies) answer(peer, typeURL, name string, is status.Confirmation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.streams[peer][typeURL][name] = is
	p.signal()
}

// signal says that something changed. The caller holds the lock.
func (p *proxies) signal() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// Poll is status.Source's. Everything may be new each time.
func (p *proxies) Poll(see func(status.Stream)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for peer, answers := range p.streams {
		see(status.Stream{Number: p.numbers[peer], Peer: peer, Refused: p.refused, Confirmed: func(typeURL, name string) status.Confirmation {
			return answers[typeURL][name]
		}})
	}
}

// Version is status.Source's.
func (p *proxies) Version(typeURL, name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.published[typeURL][name]
}

// look has a ledger look at every proxy and returns what it tells.
func (p *proxies) look(ledger *status.Ledger, replica string) status.Acks {
	p.Poll(func(stream status.Stream) { ledger.Look(stream) })
	return ledger.Acks(replica)
}

// parts divides what is published by object.
func (p *proxies) parts(config ir.Config) map[ir.Key]status.Part {
	parts := map[ir.Key]status.Part{}
	for key, own := range byObject(config) {
		parts[key] = status.PartOf(own, p.Version)
	}
	return parts
}

// byObject divides a Config by object.
func byObject(config ir.Config) map[ir.Key]ir.Config {
	parts := map[ir.Key]ir.Config{}
	for _, route := range config.Routes {
		part := parts[route.Owner]
		part.Routes, part.Services = append(part.Routes, route), config.Services
		parts[route.Owner] = part
	}
	return parts
}

// Changed is status.Source's.
func (p *proxies) Changed() <-chan struct{} { return p.changed }

// proxyPod returns the Pod of a Ready proxy.
func proxyPod(namespace, name string, addresses ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	for _, address := range addresses {
		pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: address})
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return pod
}

// splitAt is a Config in which each object, by name in the namespace apps, has a host of its own that is shared with a canary at a weight.
func splitAt(weights map[string]uint32) ir.Config {
	config := ir.Config{Services: map[ir.ServicePort]ir.Endpoints{}}
	for _, name := range []string{"other", "shop"} {
		weight, is := weights[name]
		if !is {
			continue
		}
		route := ir.Route{Owner: ir.Key{Namespace: "apps", Name: name}, Match: ir.Match{Host: ir.Host(name + ".test"), PathPrefix: "/"}}
		for service, share := range map[string]uint32{"-stable": 100 - weight, "-canary": weight} {
			backend := ir.Backend{Service: ir.Key{Namespace: "apps", Name: name + service}, Port: 80, Weight: share, Protocol: ir.HTTP1}
			route.Backends = append(route.Backends, backend)
			config.Services[backend.ServicePort()] = ready("10.1.0.1")
		}
		if route.Backends[0].Service.Name != name+"-stable" {
			route.Backends[0], route.Backends[1] = route.Backends[1], route.Backends[0]
		}
		config.Routes = append(config.Routes, route)
	}
	return config
}
