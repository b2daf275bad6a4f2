package routertest

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// routesGroup is the API group of routes.
const routesGroup = "gateway.networking.k8s.io"

// RoutesServer answers the Kubernetes REST API over HTTP and JSON for routes of the Gateway API: discovery, the schema, GET, list, watch and PUT, with resource
// versions, generations, conflicts and Status answers; for anything else GET of what a test puts there; and it takes events.
type RoutesServer struct {
	*frame
	tb testing.TB // fails where a test changes a route to what is no object

	objects map[string]*unstructured.Unstructured // by routeKey, all in one version, each as its JSON has it; guarded by frame.mu
}

// Schema is what the API server publishes of routes.
type Schema struct {
	// Version is the version that is served, such as v1.
	Version string
	// NamedRules says that rules have names.
	NamedRules bool
	// MirrorPercent says that a mirror filter has a percentage.
	MirrorPercent bool
	// IsUnpublished says that kinds are served and their schema is not there yet.
	IsUnpublished bool
}

// NewRoutesServer starts a server that serves every kind of route as schema has it, with these routes, in YAML. It ends with the test.
func NewRoutesServer(tb testing.TB, schema Schema, routes ...string) *RoutesServer {
	tb.Helper()
	s := NewRoutesInMemory(tb, schema, routes...)
	s.listen()
	return s
}

// NewRoutesInMemory is a RoutesServer without a network between it and its clients, for tests that control the time.
func NewRoutesInMemory(tb testing.TB, schema Schema, routes ...string) *RoutesServer {
	tb.Helper()
	s := &RoutesServer{tb: tb, objects: map[string]*unstructured.Unstructured{}}
	s.frame = newFrame(tb, s)
	s.Publish(schema)
	for _, route := range routes {
		document, err := yaml.YAMLToJSON([]byte(route))
		if err != nil {
			tb.Fatal(err)
		}
		object := new(unstructured.Unstructured)
		if err := object.UnmarshalJSON(document); err != nil {
			tb.Fatal(err)
		}
		s.put(object) // without the lock: nobody else has the server yet
	}
	return s
}

// Publish serves routes as schema has it, and in no other version.
func (s *RoutesServer) Publish(schema Schema) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.others, func(path string, _ any) bool { return strings.Contains(path, routesGroup) })
	groupVersion := routesGroup + "/" + schema.Version
	s.others["/apis/"+routesGroup] = metav1.APIGroup{Name: routesGroup, Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: groupVersion, Version: schema.Version}}}
	list, schemas := metav1.APIResourceList{GroupVersion: groupVersion}, map[string]any{}
	type object = map[string]any
	for _, kind := range []string{"HTTPRoute", "GRPCRoute", "TCPRoute", "TLSRoute", "UDPRoute"} {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: strings.ToLower(kind) + "s", Kind: kind, Namespaced: true})
		rule, mirror := object{"backendRefs": object{}}, object{"backendRef": object{}}
		if schema.NamedRules {
			rule["name"] = object{"type": "string"}
		}
		if schema.MirrorPercent {
			mirror["percent"] = object{"type": "integer"}
		}
		rule["filters"] = object{"items": object{"properties": object{"requestMirror": object{"properties": mirror}}}}
		schemas["gateway."+kind] = object{
			"x-kubernetes-group-version-kind": []object{{"group": routesGroup, "version": schema.Version, "kind": kind}},
			"properties":                      object{"spec": object{"properties": object{"rules": object{"items": object{"properties": rule}}}}},
		}
	}
	s.others["/apis/"+groupVersion] = list
	if !schema.IsUnpublished {
		s.others["/openapi/v3/apis/"+groupVersion] = object{"components": object{"schemas": schemas}}
	}
}

// routeKey is the path of a route without its version, such as /httproutes/shop/web.
func routeKey(resource, namespace, name string) string {
	return "/" + resource + "/" + namespace + "/" + name
}

// put creates or replaces a route, and keeps object for it: with a new resource version, and the next generation where its spec changes.
func (s *RoutesServer) put(object *unstructured.Unstructured) {
	resource := strings.ToLower(object.GetKind()) + "s"
	key := routeKey(resource, object.GetNamespace(), object.GetName())
	event, generation := "ADDED", int64(1)
	if before, found := s.objects[key]; found {
		event, generation = "MODIFIED", before.GetGeneration()
		if !reflect.DeepEqual(before.Object["spec"], object.Object["spec"]) {
			generation++
		}
	}
	object.SetGeneration(generation)
	s.objects[key] = object
	s.record(event, resource, object)
}

// Change lets change work on a copy of a route and puts the result, as another writer would: with a new resource version, and the next generation where the
// spec changes. The test fails, and goes on, where there is no such route or the result is none; so faults and timers, which have goroutines of their own, may
// call this too.
func (s *RoutesServer) Change(resource, namespace, name string, change func(map[string]any)) {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	key := routeKey(resource, namespace, name)
	before, found := s.objects[key]
	if !found {
		s.tb.Errorf("there is no route %s to change", key)
		return
	}
	object := before.DeepCopy().Object
	change(object)
	document, err := json.Marshal(object)
	after := new(unstructured.Unstructured)
	if err == nil {
		err = after.UnmarshalJSON(document)
	}
	if err != nil {
		s.tb.Errorf("route %s is changed to what is no object: %v", key, err)
		return
	}
	s.put(after)
}

// Accept lets the only Gateway of a route accept its current generation, or refuse it.
func (s *RoutesServer) Accept(resource, namespace, name string, accepted bool) {
	s.Change(resource, namespace, name, func(object map[string]any) {
		status := map[bool]string{true: "True", false: "False"}[accepted]
		generation, _, _ := unstructured.NestedInt64(object, "metadata", "generation")
		condition := func(kind string) any {
			return map[string]any{"type": kind, "status": status, "reason": "Test", "observedGeneration": generation}
		}
		parents, _, _ := unstructured.NestedSlice(object, "spec", "parentRefs")
		object["status"] = map[string]any{"parents": []any{map[string]any{"parentRef": parents[0], "conditions": []any{condition("Accepted"), condition("ResolvedRefs")}}}}
	})
}

// Object returns a copy of a route, or nil.
func (s *RoutesServer) Object(resource, namespace, name string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if object, found := s.objects[routeKey(resource, namespace, name)]; found {
		return object.DeepCopy().Object
	}
	return nil
}

// Delete removes a route.
func (s *RoutesServer) Delete(resource, namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := routeKey(resource, namespace, name)
	if gone, found := s.objects[key]; found {
		delete(s.objects, key)
		s.record("DELETED", resource, gone)
	}
}

// Lists counts the lists of all namespaces, of every kind, and the watches.
func (s *RoutesServer) Lists() (lists, watches int) {
	for _, request := range s.requestsWhere(func(r Request) bool { return s.isCollection(r.Path) }) {
		if request.Watch {
			watches++
		} else {
			lists++
		}
	}
	return lists, watches
}

// Requests returns the requests of one method whose path has part in it, those answered by a fault included, without lists and watches of all namespaces.
func (s *RoutesServer) Requests(method, part string) []Request {
	return s.requestsWhere(func(r Request) bool {
		return r.Method == method && strings.Contains(r.Path, part) && !s.isCollection(r.Path)
	})
}
