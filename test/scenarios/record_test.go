package scenarios_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
)

// The Services of all Rollouts in these tests.
const (
	stableService = "web-stable"
	canaryService = "web-canary"
)

// recorded returns the paths of the recorded objects, by resource.
func recorded() map[string]string {
	return map[string]string{
		"httpscaledobjects": "/apis/http.keda.sh/v1alpha1/httpscaledobjects",
		"httproutes":        "/apis/gateway.networking.k8s.io/v1/httproutes",
	}
}

// recorder contains the traffic split of each version of each routing object.
type recorder struct {
	mu     sync.Mutex
	splits map[string][]storedSplit // by resource/namespace/name, oldest first, without repetitions
}

// storedSplit is the traffic split of one stored version, and the time when it was seen.
type storedSplit struct {
	text string
	at   time.Time
}

func newRecorder() *recorder { return &recorder{splits: map[string][]storedSplit{}} }

// stored is an object with the fields that these tests use.
type stored struct {
	Metadata struct {
		Namespace, Name, ResourceVersion string
		Annotations                      map[string]string
	}
	Spec struct {
		Rules []struct {
			Name        string
			BackendRefs []struct {
				Name   string
				Weight *uint32
				Port   int
			}
		}
	}
}

// follow records every version of the objects at path until ctx ends.
func (r *recorder) follow(ctx context.Context, admin rest.Interface, path, resource string) {
	version := "0"
	for ctx.Err() == nil {
		stream, err := admin.Get().AbsPath(path).Param("watch", "true").Param("resourceVersion",
			version).Param("allowWatchBookmarks", "true").Stream(ctx)
		if err != nil {
			continue
		}
		for events := json.NewDecoder(stream); ; {
			var event struct {
				Type   string
				Object stored
			}
			if err := events.Decode(&event); err != nil || event.Type == "ERROR" {
				break
			}
			version = event.Object.Metadata.ResourceVersion
			if event.Type == "ADDED" || event.Type == "MODIFIED" {
				r.add(resource, event.Object)
			}
		}
		_ = stream.Close()
	}
}

// add records one version.
func (r *recorder) add(resource string, object stored) {
	text := object.annotated()
	if resource == "httproutes" {
		text = object.routed()
	}
	key := resource + "/" + object.Metadata.Namespace + "/" + object.Metadata.Name
	r.mu.Lock()
	defer r.mu.Unlock()
	if splits := r.splits[key]; len(splits) == 0 || splits[len(splits)-1].text != text {
		r.splits[key] = append(splits, storedSplit{text, time.Now()})
	}
}

// history returns all traffic splits of an object.
func (r *recorder) history(resource, namespace, name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	texts := make([]string, 0, 8)
	for _, split := range r.splits[resource+"/"+namespace+"/"+name] {
		texts = append(texts, split.text)
	}
	return strings.Join(texts, " ")
}

// since returns the traffic splits of an object, from that number on.
func (r *recorder) since(resource, namespace, name string, number int) []storedSplit {
	r.mu.Lock()
	defer r.mu.Unlock()
	splits := r.splits[resource+"/"+namespace+"/"+name]
	return slices.Clone(splits[min(number, len(splits)):])
}

// last returns the current traffic split of an object, and its time.
func (r *recorder) last(resource, namespace, name string) storedSplit {
	r.mu.Lock()
	defer r.mu.Unlock()
	splits := r.splits[resource+"/"+namespace+"/"+name]
	if len(splits) == 0 {
		return storedSplit{}
	}
	return splits[len(splits)-1]
}

// annotated returns the traffic split of an HTTPScaledObject, with the names of header and mirror routes in brackets.
func (o stored) annotated() string {
	routes, err := managedroute.Parse(or(o.Metadata.Annotations["http.kedify.io/managed-routes"], "[]"))
	if err != nil {
		return err.Error()
	}
	var managed strings.Builder
	for _, route := range routes {
		managed.WriteString("[" + route.Name + "]")
	}
	return o.weighted() + managed.String()
}

// weighted returns the traffic split of an HTTPScaledObject by weights.
func (o stored) weighted() string {
	text, ok := o.Metadata.Annotations["http.kedify.io/weighted-backends"]
	if !ok {
		return "0" // all to its own Service, which is the stable one
	}
	backends, err := split.Parse(text)
	if err != nil {
		return err.Error()
	}
	weights := map[string]uint32{}
	var others []uint32
	for _, backend := range backends {
		if weights[backend.Service] = backend.Weight; backend.Service != stableService && backend.Service != canaryService {
			others = append(others, backend.Weight)
		}
	}
	return percent(weights, others)
}

// routed returns the traffic split of an HTTPRoute: of the first rule with both Services, with the names of managed
// rules in brackets.
func (o stored) routed() string {
	text := ""
	var managed strings.Builder
	for _, rule := range o.Spec.Rules {
		if rule.Name != "" {
			managed.WriteString("[" + rule.Name + "]")
			continue
		}
		weights := map[string]uint32{}
		var others []uint32
		for _, backend := range rule.BackendRefs {
			weight := uint32(1)
			if backend.Weight != nil {
				weight = *backend.Weight
			}
			if weights[backend.Name] = weight; backend.Name != stableService && backend.Name != canaryService {
				others = append(others, weight)
			}
		}
		if text == "" {
			text = percent(weights, others)
		}
	}
	return text + managed.String()
}

// percent returns the canary Service's percentage, followed by those of further Services, each with a plus.
func percent(weights map[string]uint32, others []uint32) string {
	total := uint32(0)
	for _, weight := range weights {
		total += weight
	}
	if total == 0 {
		return "nothing"
	}
	parts := []string{fmt.Sprintf("%g", 100*float64(weights[canaryService])/float64(total))}
	for _, other := range others {
		parts = append(parts, fmt.Sprintf("%g", 100*float64(other)/float64(total)))
	}
	return strings.Join(parts, "+")
}
