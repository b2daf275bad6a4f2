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

// RoutesServer serves the Kubernetes REST API over HTTP and JSON for routes of the Gateway API: discovery, schema, GET,
// list, watch and PUT, with resource versions, generations, conflicts and Status responses; for other kinds GET of
// objects that a test adds; and it accepts Events.
type RoutesServer struct {
	*server
	tb testing.TB // fails if a test changes a route to an invalid object

	objects map[string]*unstructured.Unstructured // by routeKey, all in one version, as in JSON; guarded by server.mu
	// hasSessions is Schema.HasSessions of the stored kinds, whatever schema is published; guarded by server.mu.
	hasSessions bool
}

// Schema is what the API server publishes about routes.
type Schema struct {
	// Version is the served version, e.g. v1.
	Version string
	// HasRuleNames means that rules have names.
	HasRuleNames bool
	// HasMirrorPercent means that a mirror filter has a percentage.
	HasMirrorPercent bool
	// HasSessions means that rules have sessionPersistence: the CRDs are those of the experimental channel.
	HasSessions bool
	// IsUnpublished means that kinds are served, but their schema is not published yet.
	IsUnpublished bool
}

// NewRoutesServer starts a server for all kinds of routes with this schema and these routes, in YAML. It ends with the
// test.
func NewRoutesServer(tb testing.TB, schema Schema, routes ...string) *RoutesServer {
	tb.Helper()
	s := NewRoutesInMemory(tb, schema, routes...)
	s.listen()
	return s
}

// NewRoutesInMemory returns a RoutesServer without a network connection, for tests that control time.
func NewRoutesInMemory(tb testing.TB, schema Schema, routes ...string) *RoutesServer {
	tb.Helper()
	s := &RoutesServer{tb: tb, objects: map[string]*unstructured.Unstructured{}}
	s.server = newServer(tb, s)
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
		s.put(object) // without the lock: the server is not shared yet
	}
	return s
}

// Publish serves routes with this schema, and in no other version.
func (s *RoutesServer) Publish(schema Schema) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hasSessions = schema.HasSessions
	maps.DeleteFunc(s.others, func(path string, _ any) bool { return strings.Contains(path, routesGroup) })
	groupVersion := routesGroup + "/" + schema.Version
	s.others["/apis/"+routesGroup] = metav1.APIGroup{
		Name:     routesGroup,
		Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: groupVersion, Version: schema.Version}},
	}
	list, schemas := metav1.APIResourceList{GroupVersion: groupVersion}, map[string]any{}
	type object = map[string]any
	for _, kind := range []string{"HTTPRoute", "GRPCRoute", "TCPRoute", "TLSRoute", "UDPRoute"} {
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: strings.ToLower(kind) + "s", Kind: kind,
			Namespaced: true,
		})
		rule, mirror := object{"backendRefs": object{}}, object{"backendRef": object{}}
		if schema.HasRuleNames {
			rule["name"] = object{"type": "string"}
		}
		if schema.HasMirrorPercent {
			mirror["percent"] = object{"type": "integer"}
		}
		if schema.HasSessions {
			rule["sessionPersistence"] = object{"properties": object{"sessionName": object{}, "type": object{}}}
		}
		rule["filters"] = object{"items": object{"properties": object{"requestMirror": object{"properties": mirror}}}}
		schemas["gateway."+kind] = object{
			"x-kubernetes-group-version-kind": []object{{"group": routesGroup, "version": schema.Version, "kind": kind}},
			"properties": object{
				"spec": object{"properties": object{"rules": object{"items": object{"properties": rule}}}},
			},
		}
	}
	s.others["/apis/"+groupVersion] = list
	if !schema.IsUnpublished {
		s.others["/openapi/v3/apis/"+groupVersion] = object{"components": object{"schemas": schemas}}
	}
}

// DropSessions makes the server store no sessions any more, while it still publishes the schema with them: the CRDs have
// just been replaced.
func (s *RoutesServer) DropSessions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hasSessions = false
}

// routeKey returns the path of a route without its version, e.g. /httproutes/shop/web.
func routeKey(resource, namespace, name string) string {
	return "/" + resource + "/" + namespace + "/" + name
}

// put creates or replaces a route with object, which it keeps: with a new resource version, and the next generation if
// the spec changes.
func (s *RoutesServer) put(object *unstructured.Unstructured) {
	resource := strings.ToLower(object.GetKind()) + "s"
	key := routeKey(resource, object.GetNamespace(), object.GetName())
	event, generation := "ADDED", int64(1)
	if before, exists := s.objects[key]; exists {
		event, generation = "MODIFIED", before.GetGeneration()
		if !reflect.DeepEqual(before.Object["spec"], object.Object["spec"]) {
			generation++
		}
	}
	object.SetGeneration(generation)
	s.objects[key] = object
	s.record(event, resource, object)
}

// Change applies change to a copy of a route and stores the result like another writer: with a new resource version,
// and the next generation if the spec changes. If there is no such route or the result is invalid, the test fails and
// continues. So faults and timers, which run in other goroutines, may call it too.
func (s *RoutesServer) Change(resource, namespace, name string, change func(map[string]any)) {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	key := routeKey(resource, namespace, name)
	before, exists := s.objects[key]
	if !exists {
		s.tb.Errorf("no route %s to change", key)
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
		s.tb.Errorf("invalid change of route %s: %v", key, err)
		return
	}
	s.put(after)
}

// Accept makes the only Gateway of a route accept or reject its current generation.
func (s *RoutesServer) Accept(resource, namespace, name string, accepted bool) {
	s.Change(resource, namespace, name, func(object map[string]any) {
		status := map[bool]string{true: "True", false: "False"}[accepted]
		generation, _, _ := unstructured.NestedInt64(object, "metadata", "generation")
		condition := func(kind string) any {
			return map[string]any{"type": kind, "status": status, "reason": "Test", "observedGeneration": generation}
		}
		parents, _, _ := unstructured.NestedSlice(object, "spec", "parentRefs")
		object["status"] = map[string]any{"parents": []any{map[string]any{
			"parentRef":  parents[0],
			"conditions": []any{condition("Accepted"), condition("ResolvedRefs")},
		}}}
	})
}

// Object returns a copy of a route, or nil.
func (s *RoutesServer) Object(resource, namespace, name string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if object, exists := s.objects[routeKey(resource, namespace, name)]; exists {
		return object.DeepCopy().Object
	}
	return nil
}

// Delete removes a route.
func (s *RoutesServer) Delete(resource, namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := routeKey(resource, namespace, name)
	if deleted, exists := s.objects[key]; exists {
		delete(s.objects, key)
		s.record("DELETED", resource, deleted)
	}
}

// Lists returns the numbers of lists and watches of all namespaces, of all kinds.
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

// Requests returns the requests of one method whose path contains part, including those answered by a fault, without
// lists and watches of all namespaces.
func (s *RoutesServer) Requests(method, part string) []Request {
	return s.requestsWhere(func(r Request) bool {
		return r.Method == method && strings.Contains(r.Path, part) && !s.isCollection(r.Path)
	})
}
