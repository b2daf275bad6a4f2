package rolloutscontroller

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// interval is the pause between two passes of a ClusterSimulator.
const interval = 200 * time.Millisecond

// hashLabel is the label that the controller sets on the Pods of a ReplicaSet.
const hashLabel = "rollouts-pod-template-hash"

// SilentGateway is the name of a Gateway for which a ClusterSimulator reports nothing, so that a test can.
const SilentGateway = "silent"

// ClusterSimulator reports the status that kubelets, Kubernetes controllers and Gateways would report.
type ClusterSimulator struct {
	// EndpointSlices makes Run write an EndpointSlice next to the Endpoints of each Service. Set it before Run.
	EndpointSlices bool

	admin  rest.Interface
	routes map[string]string
	mu     sync.Mutex
	limits map[string]int32
}

// NewClusterSimulator returns a ClusterSimulator that reads and writes as admin. It accepts the Gateway API routes in
// routes, which maps a resource to its served version.
func NewClusterSimulator(admin rest.Interface, routes map[string]string) *ClusterSimulator {
	return &ClusterSimulator{admin: admin, routes: routes, limits: map[string]int32{}}
}

// LimitAvailable limits the available Pods of the ReplicaSets of a namespace whose Pod template has the annotation
// "version" with this value.
func (p *ClusterSimulator) LimitAvailable(namespace, version string, most int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limits[namespace+"/"+version] = most
}

// RemoveLimit removes the limit of LimitAvailable.
func (p *ClusterSimulator) RemoveLimit(namespace, version string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.limits, namespace+"/"+version)
}

// available returns the number of Pods that become available of the wanted ones.
func (p *ClusterSimulator) available(namespace, version string, wanted int32) int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if most, limited := p.limits[namespace+"/"+version]; limited {
		return min(most, wanted)
	}
	return wanted
}

// objectList is a list of objects with the fields that the simulator reads.
type objectList struct {
	Items []struct {
		Metadata struct {
			Namespace, Name string
			Generation      int64
			Labels          map[string]string
		}
		Spec struct {
			Replicas   *int32
			Selector   json.RawMessage
			ParentRefs []json.RawMessage
			Template   struct {
				Metadata struct{ Annotations map[string]string }
			}
		}
		Status struct {
			Replicas, AvailableReplicas int32
			ObservedGeneration          int64
			Parents                     []struct {
				Conditions []struct{ ObservedGeneration int64 }
			}
		}
	}
}

// Run runs the simulator until ctx ends. All Pods of ReplicaSets become available at once, Services get the endpoints
// of the Pods that they select, and a Gateway accepts every route.
func (p *ClusterSimulator) Run(ctx context.Context) {
	endpoints := map[string]string{} // applied endpoints by REST path
	for {
		if ready, isKnown := p.updateReplicaSets(ctx); isKnown {
			p.updateEndpoints(ctx, ready, endpoints)
		}
		for resource, version := range p.routes {
			p.acceptRoutes(ctx, version, resource)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
	}
}

// list reads a list from the API server's cache. After an error the list is empty and isKnown is false; the next pass
// tries again.
func (p *ClusterSimulator) list(ctx context.Context, path string) (read objectList, isKnown bool) {
	body, err := p.admin.Get().AbsPath(path).Param("resourceVersion", "0").DoRaw(ctx)
	if err == nil {
		err = json.Unmarshal(body, &read)
	}
	return read, err == nil
}

// patch sends a merge patch to path. The next pass repeats a failed patch.
func (p *ClusterSimulator) patch(ctx context.Context, path, content string) {
	_ = p.admin.Patch(types.MergePatchType).AbsPath(path).Body([]byte(content)).Do(ctx).Error()
}

// readyPods are the available Pods of a ReplicaSet.
type readyPods struct {
	replicaSet string
	count      int32
}

// updateReplicaSets reports the wanted replicas as available, up to the limit. It returns the available Pods by
// namespace/hash.
func (p *ClusterSimulator) updateReplicaSets(ctx context.Context) (ready map[string]readyPods, isKnown bool) {
	sets, isKnown := p.list(ctx, "/apis/apps/v1/replicasets")
	ready = map[string]readyPods{}
	for _, set := range sets.Items {
		wanted := *set.Spec.Replicas
		available := p.available(set.Metadata.Namespace, set.Spec.Template.Metadata.Annotations["version"], wanted)
		if set.Status.Replicas != wanted || set.Status.AvailableReplicas != available ||
			set.Status.ObservedGeneration != set.Metadata.Generation {
			p.patch(ctx, fmt.Sprintf("/apis/apps/v1/namespaces/%s/replicasets/%s/status", set.Metadata.Namespace,
				set.Metadata.Name),
				fmt.Sprintf(`{"status":{"replicas":%[1]d,"fullyLabeledReplicas":%[1]d,"readyReplicas":%[3]d,`+
					`"availableReplicas":%[3]d,"observedGeneration":%[2]d}}`,
					wanted, set.Metadata.Generation, available))
		}
		if available > 0 {
			ready[set.Metadata.Namespace+"/"+set.Metadata.Labels[hashLabel]] = readyPods{set.Metadata.Name, available}
		}
	}
	return ready, isKnown
}

// updateEndpoints gives every Service that selects Pods by their hash the addresses of the available ones.
func (p *ClusterSimulator) updateEndpoints(
	ctx context.Context, ready map[string]readyPods, written map[string]string,
) {
	services, _ := p.list(ctx, "/api/v1/services")
	for _, service := range services.Items {
		var selector map[string]string
		if json.Unmarshal(service.Spec.Selector, &selector) != nil || selector[hashLabel] == "" {
			continue
		}
		pods, subsets := service.Metadata.Namespace+"/"+selector[hashLabel], "[]"
		if addresses := ready[pods].addresses(pods); len(addresses) > 0 {
			subsets = fmt.Sprintf(`[{"addresses":[%s],"ports":[{"port":8080}]}]`, strings.Join(addresses, ","))
		}
		path := fmt.Sprintf("/api/v1/namespaces/%s/endpoints/%s", service.Metadata.Namespace, service.Metadata.Name)
		if written[path] == subsets {
			continue
		}
		body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Endpoints","metadata":{"name":%q},"subsets":%s}`,
			service.Metadata.Name, subsets)
		err := p.apply(ctx, path, body)
		if err == nil && p.EndpointSlices {
			err = p.applySlice(ctx, service.Metadata.Namespace, service.Metadata.Name, ready[pods].addresses(pods))
		}
		if err == nil {
			written[path] = subsets
		}
	}
}

// apply applies an object at its REST path.
func (p *ClusterSimulator) apply(ctx context.Context, path, body string) error {
	return p.admin.Patch(types.ApplyPatchType).AbsPath(path).
		Param("fieldManager", "test").Param("force", "true").Body([]byte(body)).Do(ctx).Error()
}

// applySlice applies the EndpointSlice of a Service. addresses are those of its Endpoints.
func (p *ClusterSimulator) applySlice(ctx context.Context, namespace, service string, addresses []string) error {
	endpoints := make([]string, len(addresses))
	for i, address := range addresses {
		var pod struct{ IP string }
		if err := json.Unmarshal([]byte(address), &pod); err != nil {
			return err
		}
		endpoints[i] = fmt.Sprintf(`{"addresses":[%q],"conditions":{"ready":true}}`, pod.IP)
	}
	return p.apply(ctx, fmt.Sprintf("/apis/discovery.k8s.io/v1/namespaces/%s/endpointslices/%s", namespace, service),
		fmt.Sprintf(`{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","addressType":"IPv4",`+
			`"metadata":{"name":%[1]q,"labels":{"kubernetes.io/service-name":%[1]q}},"endpoints":[%[2]s]}`,
			service, strings.Join(endpoints, ",")))
}

// addresses returns the addresses of Pods in Endpoints. key is their namespace and hash.
func (r readyPods) addresses(key string) []string {
	sum, addresses := sha256.Sum256([]byte(key)), []string(nil)
	for i := range r.count {
		addresses = append(addresses, fmt.Sprintf(`{"ip":"10.%d.%d.%d","targetRef":{"kind":"Pod","name":"%s-%05d"}}`,
			1+sum[0]%250, sum[1], 1+i, r.replicaSet, i))
	}
	return addresses
}

// acceptRoutes accepts every route in its current generation, except those of SilentGateway.
func (p *ClusterSimulator) acceptRoutes(ctx context.Context, version, resource string) {
	routes, _ := p.list(ctx, "/apis/gateway.networking.k8s.io/"+version+"/"+resource)
	for _, route := range routes.Items {
		if len(route.Spec.ParentRefs) == 0 || strings.Contains(string(route.Spec.ParentRefs[0]), `"`+SilentGateway+`"`) {
			continue
		}
		if parents := route.Status.Parents; len(parents) == 1 && len(parents[0].Conditions) > 0 &&
			parents[0].Conditions[0].ObservedGeneration == route.Metadata.Generation {
			continue
		}
		condition := func(name string) string {
			return fmt.Sprintf(`{"type":%q,"status":"True","reason":%q,"message":"",`+
				`"lastTransitionTime":"2026-01-01T00:00:00Z","observedGeneration":%d}`,
				name, name, route.Metadata.Generation)
		}
		p.patch(ctx, fmt.Sprintf("/apis/gateway.networking.k8s.io/%s/namespaces/%s/%s/%s/status", version,
			route.Metadata.Namespace, resource, route.Metadata.Name),
			fmt.Sprintf(`{"status":{"parents":[{"parentRef":%s,"controllerName":"example.com/gateway","conditions":[%s,%s]}]}}`,
				route.Spec.ParentRefs[0], condition("Accepted"), condition("ResolvedRefs")))
	}
}
