package status

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/ir"
)

// Fleet are the Ready proxies.
type Fleet struct {
	// Proxies are all of them.
	Proxies []Proxy
	// Shared says that every proxy serves every namespace. Otherwise a proxy serves the HTTPScaledObjects of its own namespace.
	Shared bool
}

// Proxy is one Ready proxy.
type Proxy struct {
	// Namespace is the namespace of its Pod.
	Namespace string
	// Addresses are those of its Pod, one per IP family. It connects from one of them.
	Addresses []netip.Addr
}

// Taken is what the proxies that serve one HTTPScaledObject have taken of it, all replicas together.
type Taken struct {
	// Proxies counts them.
	Proxies httpv1alpha1.ProxyCounts
	// AsDesired says that the published weights are those that the object asks for.
	AsDesired bool
	// Refusal says which proxy refused the object and why, "" when none did.
	Refusal string
}

// ReadyProxies returns the Pods that are Ready and not about to go away: a proxy that drains gets no new connections.
func ReadyProxies(pods []*corev1.Pod) []Proxy {
	var proxies []Proxy
	for _, pod := range pods {
		if !isReady(pod) {
			continue
		}
		proxy := Proxy{Namespace: pod.Namespace}
		for _, ip := range pod.Status.PodIPs {
			if address, err := netip.ParseAddr(ip.IP); err == nil {
				proxy.Addresses = append(proxy.Addresses, address.Unmap())
			}
		}
		proxies = append(proxies, proxy)
	}
	return proxies
}

// isReady says whether a Pod is Ready and stays.
func isReady(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// equal says whether two fleets are the same.
func (f Fleet) equal(other Fleet) bool {
	return f.Shared == other.Shared && slices.EqualFunc(f.Proxies, other.Proxies, func(a, b Proxy) bool {
		return a.Namespace == b.Namespace && slices.Equal(a.Addresses, b.Addresses)
	})
}

// Merge tells, for each object of wanted, what fleet has taken of it, by what all replicas know of their proxies. A proxy counts as having an object when
// every replica that it is connected to publishes the object as wanted and knows that the proxy confirmed it so. A proxy that nobody knows, because it is
// not connected or because its replica did not answer, has nothing. Nobody has an object whose Part is the zero value.
func Merge(fleet Fleet, wanted map[ir.Key]Part, replicas []Acks) map[ir.Key]Taken {
	places := make([]map[ir.Key]int, len(replicas))
	views := map[netip.Addr][]view{}
	refusals := map[ir.Key]string{}
	for i, acks := range replicas {
		places[i] = acks.places(wanted)
		for _, proxy := range acks.Proxies {
			views[proxy.Address] = append(views[proxy.Address], view{i, proxy})
		}
		noteRefusals(refusals, acks, places[i])
	}
	byNamespace := map[string][][]view{}
	for _, proxy := range fleet.Proxies {
		namespace := proxy.Namespace
		if fleet.Shared {
			namespace = ""
		}
		var seen []view
		for _, address := range proxy.Addresses {
			seen = append(seen, views[address]...)
		}
		byNamespace[namespace] = append(byNamespace[namespace], seen)
	}
	taken := make(map[ir.Key]Taken, len(wanted))
	for key, part := range wanted {
		serving := byNamespace[key.Namespace]
		if fleet.Shared {
			serving = byNamespace[""]
		}
		taken[key] = Taken{Proxies: count(key, serving, places), AsDesired: part.AsDesired, Refusal: refusals[key]}
	}
	return taken
}

// view is what one replica knows of one proxy.
type view struct {
	replica int
	proxy   ProxyAcks
}

// count counts the proxies, each given by its views, and those that have the object.
func count(key ir.Key, proxies [][]view, places []map[ir.Key]int) httpv1alpha1.ProxyCounts {
	var counts httpv1alpha1.ProxyCounts
	for _, views := range proxies {
		counts.Ready++
		has := len(views) > 0
		for _, v := range views {
			place, isWanted := places[v.replica][key]
			has = has && isWanted && !v.proxy.isBehind(place)
		}
		if has {
			counts.Acked++
		}
	}
	return counts
}

// noteRefusals adds what a replica tells of objects that it publishes as wanted.
func noteRefusals(refusals map[ir.Key]string, acks Acks, places map[ir.Key]int) {
	if len(acks.Refusals) == 0 {
		return
	}
	byName := make(map[string]Refusal, len(acks.Refusals))
	for _, refusal := range acks.Refusals {
		byName[refusal.Object] = refusal
	}
	for key := range places {
		if refusal, refused := byName[key.String()]; refused && refusals[key] == "" {
			refusals[key] = "proxy " + refusal.Proxy.String() + ": " + refusal.Message
		}
	}
}
