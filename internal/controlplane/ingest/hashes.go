package ingest

import (
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
)

const (
	// suffixLength is the length of the suffix that the API server appends to a generated name. maxPodName is the
	// maximum length of such a name; the part before the suffix is truncated (k8s.io/apiserver/pkg/storage/names).
	suffixLength, maxPodName = 5, 63
	// maxHash is the length of the longest hash: a 32-bit decimal number, encoded with another alphabet.
	maxHash = 10
	// alphabet are the characters of hashes and of generated names (k8s.io/apimachinery/pkg/util/rand).
	alphabet = "bcdfghjklmnpqrstvwxz2456789"
)

// readyHashes returns the pod-template-hashes of the ready Pods behind a Service, sorted. It returns none if the
// Service does not exist (nil) or belongs to no Rollout. It also returns none if the hash of at least one Pod is
// unknown, because a wrong hash could complete a promotion too early.
//
// The hash in the Service's selector is not sufficient. It changes as soon as a canary is promoted, while the
// endpoints are still those of the old Pods. Watching the labels of all Pods would be too expensive. However,
// EndpointSlices contain the names of Pods. A ReplicaSet of a Rollout is named <rollout>-<hash>, and its Pods are
// named <rollout>-<hash>-<five random characters>.
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

// hashOf returns the pod-template-hash of the Pod behind an endpoint, or "" if the Pod's name does not contain it. A
// name of the maximum length may be truncated, so that the apparent hash may be a part of the Rollout's name. Such a
// hash counts only if it equals the selector's hash.
func hashOf(endpoint resolve.Endpoint, selectorHash string) string {
	name := endpoint.Target
	if !endpoint.IsPod || len(name) <= suffixLength {
		return ""
	}
	base, suffix := name[:len(name)-suffixLength], name[len(name)-suffixLength:]
	owner, isWhole := strings.CutSuffix(base, "-")
	cut := strings.LastIndexByte(owner, '-')
	if !isWhole || cut < 1 || !isEncoded(suffix) {
		return ""
	}
	hash := owner[cut+1:]
	if hash == "" || len(hash) > maxHash || !isEncoded(hash) || len(name) >= maxPodName && hash != selectorHash {
		return ""
	}
	return hash
}

// isEncoded reports whether text consists of characters of hashes.
func isEncoded(text string) bool {
	return strings.Trim(text, alphabet) == ""
}
