package ingest

import (
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
)

const (
	// randomLength and maxPodName are the length of what the API server adds to a generated name, and of such a name in all; what comes before is cut to fit
	// (k8s.io/apiserver/pkg/storage/names).
	randomLength, maxPodName = 5, 63
	// maxHash is the length of the longest hash: it is the decimal form of 32 bits in another alphabet.
	maxHash = 10
	// alphabet are the characters of hashes and of generated names (k8s.io/apimachinery/pkg/util/rand).
	alphabet = "bcdfghjklmnpqrstvwxz2456789"
)

// readyHashes returns the pod-template-hashes of the ready Pods behind a Service, sorted. It returns none for a Service that is no Rollout's or is not there
// (nil), and none when it cannot tell for every Pod: no answer is better than a wrong one.
//
// The hash in the Service's selector is not the answer. It changes at once when a canary is promoted, while the endpoints are those of the old Pods for
// some time yet. And the labels of all Pods are too much to watch for it. But EndpointSlices name the Pods, and ReplicaSets of a Rollout, which are called
// <rollout>-<hash>, name theirs <rollout>-<hash>-<five random characters>.
func readyHashes(service *resolve.Service, endpointSlices []*resolve.EndpointSlice) []string {
	if service == nil || service.PodTemplateHash == "" {
		return nil
	}
	var hashes []string
	for _, slice := range endpointSlices {
		if slice.Family == discoveryv1.AddressTypeFQDN {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			if !endpoint.IsReady {
				continue
			}
			hash := hashOf(endpoint, service.PodTemplateHash)
			if hash == "" {
				return nil
			}
			hashes = append(hashes, hash)
		}
	}
	slices.Sort(hashes)
	return slices.Compact(hashes)
}

// hashOf returns the pod-template-hash of the Pod that an endpoint stands for, or "" when its name does not tell. A name of the greatest length may have been
// cut, and then what looks like a hash may be a part of the Rollout's name; unless it is the selected one, which no accident makes.
func hashOf(endpoint resolve.Endpoint, selected string) string {
	name := endpoint.Target
	if !endpoint.IsPod || len(name) <= randomLength {
		return ""
	}
	base, random := name[:len(name)-randomLength], name[len(name)-randomLength:]
	owner, isWhole := strings.CutSuffix(base, "-")
	cut := strings.LastIndexByte(owner, '-')
	if !isWhole || cut < 1 || !isEncoded(random) {
		return ""
	}
	hash := owner[cut+1:]
	if hash == "" || len(hash) > maxHash || !isEncoded(hash) || len(name) >= maxPodName && hash != selected {
		return ""
	}
	return hash
}

// isEncoded says whether text is made of the characters of hashes.
func isEncoded(text string) bool {
	return strings.Trim(text, alphabet) == ""
}
