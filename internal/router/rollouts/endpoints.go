package rollouts

import (
	"context"
	"fmt"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kedify/argo-rollouts-plugin/internal/router/reasons"
)

const (
	// maxAddresses is the number of addresses that Kubernetes writes to an Endpoints object; it omits the others.
	maxAddresses = 1000
	// maxPodPrefix is the longest part of a ReplicaSet's name, with a dash, in the names of its Pods
	// (MaxGeneratedNameLength in k8s.io/apiserver/pkg/storage/names).
	maxPodPrefix = 58
)

// HasReadyEndpoint reports whether a Service of the Rollout has a ready address. If Endpoints may not be read, the
// result is false, with a Warning Event.
func (g *PromotionGate) HasReadyEndpoint(ctx context.Context, rollout *v1alpha1.Rollout, service string) (bool, error) {
	addresses, err := g.readyAddresses(ctx, rollout.Namespace, service)
	if apierrors.IsForbidden(err) {
		g.events.Warn(ctx, rollout, reasons.AbortNotImmediate, fmt.Sprintf("cannot read the Endpoints of Service %q, so the "+
			"canary keeps its weight until all stable Pods are available: allow the controller's ServiceAccount to get "+
			"endpoints", service))
		return false, nil
	}
	return len(addresses) > 0, err
}

// ReadyPods returns the number of ready addresses of a Service that belong to Pods with a pod template hash: right after
// a change of its selector, a Service still has the addresses of other Pods. isKnown is false if Endpoints may not be
// read, with a Warning Event, and if they do not contain all addresses.
func (g *PromotionGate) ReadyPods(
	ctx context.Context, rollout *v1alpha1.Rollout, service, hash string,
) (count int, isKnown bool, err error) {
	addresses, err := g.readyAddresses(ctx, rollout.Namespace, service)
	if apierrors.IsForbidden(err) {
		g.events.Warn(ctx, rollout, reasons.WeightNotLimited, fmt.Sprintf("cannot read the Endpoints of Service %q, so the "+
			"canary's weight is not limited to what its ready Pods can carry: allow the controller's ServiceAccount to get "+
			"endpoints", service))
		return 0, false, nil
	}
	prefix := rollout.Name + "-" + hash + "-"
	prefix = prefix[:min(len(prefix), maxPodPrefix)]
	for _, pod := range addresses {
		if pod == "" || strings.HasPrefix(pod, prefix) {
			count++
		}
	}
	return count, len(addresses) < maxAddresses, err
}

// endpoints is the part of an Endpoints object (core/v1) with the ready addresses. The controller's ServiceAccount may
// get Endpoints, but not EndpointSlices.
type endpoints struct {
	Subsets []struct {
		Addresses []struct {
			IP        string `json:"ip"`
			TargetRef struct {
				Kind string `json:"kind"`
				Name string `json:"name"`
			} `json:"targetRef"`
		} `json:"addresses"`
	} `json:"subsets"`
}

// readyAddresses returns the ready addresses of a Service with the names of their Pods, "" if unknown. It returns none
// if the Service has no Endpoints.
func (g *PromotionGate) readyAddresses(ctx context.Context, namespace, service string) (map[string]string, error) {
	var read endpoints
	err := g.client.Get(ctx, &read, "api", "v1", "namespaces", namespace, "endpoints", service)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("endpoints of Service %q: %w", service, err)
	}
	addresses := map[string]string{}
	for _, subset := range read.Subsets {
		for _, address := range subset.Addresses {
			addresses[address.IP] = ""
			if address.TargetRef.Kind == "Pod" {
				addresses[address.IP] = address.TargetRef.Name
			}
		}
	}
	return addresses, nil
}
