package resolve_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// claimOf returns an object of a namespace in the shared fleet with the given hosts.
func claimOf(namespace, name string, rank int, hosts ...string) *httpv1alpha1.HTTPScaledObject {
	return inFleet("shared", kit.NewScaledObject(namespace, name, "shop", rank, hosts...))
}

// allowing delegates the hosts of an object.
func allowing(namespaces string, object *httpv1alpha1.HTTPScaledObject) *httpv1alpha1.HTTPScaledObject {
	return kit.WithAnnotation(object, httpv1alpha1.AnnotationAllowedNamespaces, namespaces)
}

// below sets the path prefix of an object.
func below(prefix string, object *httpv1alpha1.HTTPScaledObject) *httpv1alpha1.HTTPScaledObject {
	object.Spec.PathPrefixes = []string{prefix}
	return object
}

// unreadable adds an error of the decoder to an object.
func unreadable(object *httpv1alpha1.HTTPScaledObject) *httpv1alpha1.HTTPScaledObject {
	object.Spec.Unreadable = "timeouts: a number does not fit a duration"
	return object
}

// withHeader adds a header to the match of an object.
func withHeader(name string, object *httpv1alpha1.HTTPScaledObject) *httpv1alpha1.HTTPScaledObject {
	object.Spec.Headers = []httpv1alpha1.Header{{Name: name}}
	return object
}

// served returns the routes of a Config as "host/path object".
func served(config model.Config) []string {
	var routes []string
	for _, route := range config.Routes {
		routes = append(routes, fmt.Sprintf("%s%s %s", route.Match.Host, route.Match.PathPrefix, route.Owner))
	}
	slices.Sort(routes)
	return routes
}

// sharedInputs returns Inputs with a shared fleet.
func sharedInputs(objects ...*httpv1alpha1.HTTPScaledObject) resolve.Inputs {
	return resolve.Inputs{
		Options: resolve.Options{SharedFleet: "keda"}, Services: servicesOf("keda", "shop", "evil", "team", "other"),
		ScaledObjects: objects,
	}
}

// TestAHostOfTheSharedFleetBelongsToOneNamespace has objects of several namespaces with overlapping hosts.
func TestAHostOfTheSharedFleetBelongsToOneNamespace(t *testing.T) {
	t.Parallel()
	const conflict, claimed = httpv1alpha1.ReasonRouteConflict, httpv1alpha1.ReasonHostClaimedByOther
	for name, test := range map[string]struct {
		objects  []*httpv1alpha1.HTTPScaledObject
		served   []string
		problems map[string]string // reasons by object
	}{
		"same host": {
			[]*httpv1alpha1.HTTPScaledObject{claimOf("shop", "shop", 1, "shop.test"), claimOf("evil", "x", 2, "shop.test")},
			[]string{"shop.test/ shop/shop"},
			map[string]string{"evil/x": conflict, "shop/shop": claimed},
		},
		"one more header": {
			[]*httpv1alpha1.HTTPScaledObject{
				claimOf("shop", "shop", 1, "shop.test"), withHeader("user-agent", claimOf("evil", "x", 2, "shop.test")),
			},
			[]string{"shop.test/ shop/shop"},
			map[string]string{"evil/x": conflict, "shop/shop": claimed},
		},
		"longer path": {
			[]*httpv1alpha1.HTTPScaledObject{
				claimOf("shop", "shop", 1, "shop.test"), below("/login", claimOf("evil", "x", 2, "shop.test")),
			},
			[]string{"shop.test/ shop/shop"},
			map[string]string{"evil/x": conflict, "shop/shop": claimed},
		},
		"path that the owner does not serve": {
			[]*httpv1alpha1.HTTPScaledObject{
				below("/api", claimOf("shop", "shop", 1, "shop.test")), claimOf("evil", "x", 2, "shop.test"),
			},
			[]string{"shop.test/api shop/shop"},
			map[string]string{"evil/x": conflict, "shop/shop": claimed},
		},
		"other spelling": {
			[]*httpv1alpha1.HTTPScaledObject{
				claimOf("shop", "shop", 1, "shop.test"), below("/login", claimOf("evil", "x", 2, "SHOP.test.:80")),
			},
			[]string{"shop.test/ shop/shop"},
			map[string]string{"evil/x": conflict, "shop/shop": claimed},
		},
		"exact below a wildcard": {
			[]*httpv1alpha1.HTTPScaledObject{claimOf("shop", "shop", 1, "*.test"), claimOf("evil", "x", 2, "pay.shop.test")},
			[]string{"*.test/ shop/shop"},
			map[string]string{"evil/x": conflict, "shop/shop": claimed},
		},
		"narrower wildcard": {
			[]*httpv1alpha1.HTTPScaledObject{
				claimOf("shop", "shop", 1, "*.shop.test"), claimOf("evil", "x", 2, "*.eu.shop.test"),
			},
			[]string{"*.shop.test/ shop/shop"},
			map[string]string{"evil/x": conflict, "shop/shop": claimed},
		},
		"below any host": {
			[]*httpv1alpha1.HTTPScaledObject{claimOf("shop", "shop", 1, "*"), claimOf("evil", "x", 2, "a.test", "*.b.test")},
			[]string{"*/ shop/shop"},
			map[string]string{"evil/x": conflict, "shop/shop": claimed},
		},
		"younger wildcard keeps the rest": {
			[]*httpv1alpha1.HTTPScaledObject{
				claimOf("shop", "shop", 1, "pay.shop.test"), claimOf("evil", "x", 2, "*.shop.test", "*"),
			},
			[]string{"*.shop.test/ evil/x", "*/ evil/x", "pay.shop.test/ shop/shop"},
			map[string]string{},
		},
		"further objects of the owner below a younger wildcard": {
			[]*httpv1alpha1.HTTPScaledObject{
				claimOf("shop", "shop", 1, "pay.shop.test"), claimOf("evil", "x", 2, "*.shop.test"),
				below("/cart", claimOf("shop", "cart", 3, "pay.shop.test")), claimOf("evil", "y", 4, "pay.shop.test"),
			},
			[]string{"*.shop.test/ evil/x", "pay.shop.test/ shop/shop", "pay.shop.test/cart shop/cart"},
			map[string]string{"evil/y": conflict, "shop/shop": claimed},
		},
		"new host below a foreign wildcard": {
			[]*httpv1alpha1.HTTPScaledObject{
				claimOf("shop", "shop", 1, "pay.shop.test"), claimOf("evil", "x", 2, "*.shop.test"),
				claimOf("shop", "new", 3, "new.shop.test"),
			},
			[]string{"*.shop.test/ evil/x", "pay.shop.test/ shop/shop"},
			map[string]string{"shop/new": conflict, "evil/x": claimed},
		},
		"only the taken hosts are lost": {
			[]*httpv1alpha1.HTTPScaledObject{
				claimOf("shop", "shop", 1, "shop.test"), claimOf("evil", "x", 2, "shop.test", "own.test"),
			},
			[]string{"own.test/ evil/x", "shop.test/ shop/shop"},
			map[string]string{"evil/x": conflict, "shop/shop": claimed},
		},
		"same age": {
			[]*httpv1alpha1.HTTPScaledObject{claimOf("shop", "shop", 1, "*.test"), claimOf("evil", "x", 1, "shop.test")},
			[]string{"*.test/ shop/shop", "shop.test/ evil/x"},
			map[string]string{},
		},
		"a name is not below itself": {
			[]*httpv1alpha1.HTTPScaledObject{
				claimOf("shop", "shop", 1, "*.shop.test"), claimOf("evil", "x", 2, "shop.test", "xshop.test"),
			},
			[]string{"*.shop.test/ shop/shop", "shop.test/ evil/x", "xshop.test/ evil/x"},
			map[string]string{},
		},
		"an invalid object without routes owns the hosts that it names": {
			[]*httpv1alpha1.HTTPScaledObject{
				withHeader("not a header", claimOf("shop", "shop", 1, "shop.test")), claimOf("evil", "x", 2, "shop.test"),
			},
			nil,
			map[string]string{"shop/shop": httpv1alpha1.ReasonInvalidHeaders, "evil/x": conflict},
		},
		"an invalid wildcard owns the hosts below it": {
			[]*httpv1alpha1.HTTPScaledObject{
				withHeader("not a header", claimOf("shop", "shop", 1, "*.test")), claimOf("evil", "x", 2, "shop.test", "own.org"),
			},
			[]string{"own.org/ evil/x"},
			map[string]string{"shop/shop": httpv1alpha1.ReasonInvalidHeaders, "evil/x": conflict},
		},
		"an object that cannot be parsed owns the hosts that it names": {
			[]*httpv1alpha1.HTTPScaledObject{
				unreadable(claimOf("shop", "shop", 1, "shop.test")), claimOf("evil", "x", 2, "shop.test"),
			},
			nil,
			map[string]string{"shop/shop": httpv1alpha1.ReasonInvalidSpec, "evil/x": conflict},
		},
		"an invalid fleet does not release hosts": {
			[]*httpv1alpha1.HTTPScaledObject{
				inFleet("shred", kit.NewScaledObject("shop", "shop", "shop", 1, "shop.test")),
				claimOf("evil", "x", 2, "shop.test"),
			},
			[]string{"shop.test/ shop/shop"}, // in the fleet of its namespace
			map[string]string{"shop/shop": httpv1alpha1.ReasonInvalidFleet, "evil/x": conflict},
		},
		"an invalid owner can delegate": {
			[]*httpv1alpha1.HTTPScaledObject{
				allowing("team", withHeader("not a header", claimOf("shop", "shop", 1, "shop.test"))),
				claimOf("team", "t", 2, "shop.test"),
			},
			[]string{"shop.test/ team/t"},
			map[string]string{"shop/shop": httpv1alpha1.ReasonInvalidHeaders},
		},
		"an invalid younger object is reported to both": {
			[]*httpv1alpha1.HTTPScaledObject{
				claimOf("shop", "shop", 1, "shop.test"), withHeader("not a header", claimOf("evil", "x", 2, "shop.test")),
			},
			[]string{"shop.test/ shop/shop"},
			map[string]string{"evil/x": conflict, "shop/shop": claimed},
		},
		"hosts that do not parse are not owned": {
			[]*httpv1alpha1.HTTPScaledObject{
				claimOf("shop", "shop", 1, "not a host", "shop.test"), claimOf("evil", "x", 2, "shop.test", "own.test"),
			},
			[]string{"own.test/ evil/x", "shop.test/ shop/shop"},
			map[string]string{"shop/shop": httpv1alpha1.ReasonInvalidHosts, "evil/x": conflict},
		},
		"own fleets": {
			[]*httpv1alpha1.HTTPScaledObject{
				kit.NewScaledObject("shop", "shop", "shop", 1, "*.test"), kit.NewScaledObject("evil", "x", "shop", 2, "a.test"),
				claimOf("other", "y", 3, "a.test"),
			},
			[]string{"*.test/ shop/shop", "a.test/ evil/x", "a.test/ other/y"},
			map[string]string{},
		},
		"objects of the interceptor's namespace without the annotation": {
			[]*httpv1alpha1.HTTPScaledObject{
				kit.NewScaledObject("keda", "all", "shop", 1, "*"), claimOf("evil", "x", 2, "a.test"),
			},
			[]string{"*/ keda/all"},
			map[string]string{"evil/x": conflict, "keda/all": claimed},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expectServed(t, sharedInputs(test.objects...), test.served, test.problems)
		})
	}
}

// TestDelegation has owners that list other namespaces.
func TestDelegation(t *testing.T) {
	t.Parallel()
	const conflict, claimed = httpv1alpha1.ReasonRouteConflict, httpv1alpha1.ReasonHostClaimedByOther
	for name, test := range map[string]struct {
		objects  []*httpv1alpha1.HTTPScaledObject
		served   []string
		problems map[string]string
	}{
		"paths compete": {
			[]*httpv1alpha1.HTTPScaledObject{
				allowing("other, team", claimOf("shop", "shop", 1, "shop.test")),
				below("/cart", claimOf("team", "cart", 2, "shop.test")), claimOf("team", "all", 3, "shop.test"),
				below("/login", claimOf("evil", "x", 2, "shop.test")),
			},
			[]string{"shop.test/ shop/shop", "shop.test/cart team/cart"},
			map[string]string{"team/all": conflict, "evil/x": conflict, "shop/shop": claimed},
		},
		"not by the claimant": {
			[]*httpv1alpha1.HTTPScaledObject{
				claimOf("shop", "shop", 1, "shop.test"), allowing("*", below("/x", claimOf("evil", "x", 2, "shop.test"))),
			},
			[]string{"shop.test/ shop/shop"},
			map[string]string{"evil/x": conflict, "shop/shop": claimed},
		},
		"only by the oldest object of the owner": {
			[]*httpv1alpha1.HTTPScaledObject{
				claimOf("shop", "shop", 1, "shop.test"), allowing("team", below("/a", claimOf("shop", "a", 2, "shop.test"))),
				below("/x", claimOf("team", "x", 3, "shop.test")),
			},
			[]string{"shop.test/ shop/shop", "shop.test/a shop/a"},
			map[string]string{"team/x": conflict, "shop/shop": claimed},
		},
		"below a delegated wildcard the oldest owns a host": {
			[]*httpv1alpha1.HTTPScaledObject{
				allowing("*", claimOf("keda", "platform", 1, "*.apps.test")), claimOf("shop", "shop", 2, "shop.apps.test"),
				below("/login", claimOf("evil", "x", 3, "shop.apps.test")), claimOf("team", "t", 4, "*.team.apps.test"),
				claimOf("evil", "y", 5, "a.team.apps.test"),
			},
			[]string{"*.apps.test/ keda/platform", "*.team.apps.test/ team/t", "shop.apps.test/ shop/shop"},
			map[string]string{"evil/x": conflict, "evil/y": conflict, "shop/shop": claimed, "team/t": claimed},
		},
		"age does not replace the permission of every owner": {
			[]*httpv1alpha1.HTTPScaledObject{
				allowing("team", claimOf("keda", "platform", 1, "*")), claimOf("evil", "x", 2, "a.team.test"),
				claimOf("team", "t", 3, "*.team.test"),
			},
			[]string{"*.team.test/ team/t", "*/ keda/platform"},
			map[string]string{"evil/x": conflict, "keda/platform": claimed},
		},
		"an invalid entry delegates nothing": {
			[]*httpv1alpha1.HTTPScaledObject{
				allowing("ev*,, Team,other", claimOf("shop", "shop", 1, "shop.test")),
				below("/x", claimOf("evil", "x", 2, "shop.test")), below("/y", claimOf("other", "y", 2, "shop.test")),
				below("/z", claimOf("team", "z", 2, "shop.test")),
			},
			[]string{"shop.test/ shop/shop", "shop.test/y other/y"},
			map[string]string{
				"evil/x": conflict, "team/z": conflict, "shop/shop": httpv1alpha1.ReasonInvalidAllowedNamespaces,
			},
		},
		"a list that may be cut delegates nothing": {
			[]*httpv1alpha1.HTTPScaledObject{
				allowing(strings.Repeat("other,", 682)+"evil-partner", claimOf("shop", "shop", 1, "shop.test")),
				below("/y", claimOf("other", "y", 2, "shop.test")),
			},
			[]string{"shop.test/ shop/shop"},
			map[string]string{"other/y": conflict, "shop/shop": httpv1alpha1.ReasonInvalidAllowedNamespaces},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expectServed(t, sharedInputs(test.objects...), test.served, test.problems)
		})
	}
}

// expectServed compares the result of Build with the expected routes and the reason of each object's last error, or
// of its warning if it has no error.
func expectServed(t *testing.T, inputs resolve.Inputs, routes []string, wantReasons map[string]string) {
	t.Helper()
	config, problems := resolve.Build(inputs)
	if diff := cmp.Diff(routes, served(config)); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
	got := map[string]string{}
	for _, problem := range problems {
		if _, isKnown := got[problem.On.String()]; !isKnown || !problem.IsWarning {
			got[problem.On.String()] = problem.Reason
		}
		if len(problem.Message) > 1000 {
			t.Errorf("the message has %d bytes", len(problem.Message))
		}
	}
	if diff := cmp.Diff(wantReasons, got); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
}

// TestForeignHostMessages checks that both messages name the other object and the fix.
func TestForeignHostMessages(t *testing.T) {
	t.Parallel()
	_, problems := resolve.Build(sharedInputs(
		claimOf("shop", "shop", 1, "*.shop.test"), claimOf("evil", "x", 2, many(9, "h%d.shop.test")...)))
	messages := map[string]string{}
	for _, problem := range problems {
		messages[problem.On.String()] = problem.Message
	}
	for object, parts := range map[string][]string{
		"evil/x": {
			"h0.shop.test", "h2.shop.test, 6 more", `namespace "shop"`, "shop/shop", `add "evil"`,
			"http.kedify.io/allowed-namespaces",
		},
		"shop/shop": {"evil/x", "h0.shop.test", "h2.shop.test", "and others", "http.kedify.io/allowed-namespaces"},
	} {
		for _, part := range parts {
			if !strings.Contains(messages[object], part) {
				t.Errorf("the message of %s lacks %q: %s", object, part, messages[object])
			}
		}
	}
}

// TestInvalidOwnerKeepsItsHost invalidates the object that owns a host: its published routes still own it.
func TestInvalidOwnerKeepsItsHost(t *testing.T) {
	t.Parallel()
	owner, other := claimOf("shop", "shop", 1, "shop.test"), below("/login", claimOf("evil", "x", 2, "shop.test"))
	inputs := sharedInputs(owner)
	inputs.Published, _ = resolve.Build(inputs)
	broken := owner.DeepCopy()
	broken.Spec.Hosts = []string{"not a host"}
	inputs.ScaledObjects = []*httpv1alpha1.HTTPScaledObject{broken, other}
	expectServed(t, inputs, []string{"shop.test/ shop/shop"}, map[string]string{
		"shop/shop": httpv1alpha1.ReasonInvalidHosts, "evil/x": httpv1alpha1.ReasonRouteConflict,
	})
}

// TestObjectsAboveTheLimitOwnNothing has the oldest namespace name a host in an object that its limits exclude.
func TestObjectsAboveTheLimitOwnNothing(t *testing.T) {
	t.Parallel()
	inputs := sharedInputs(claimOf("shop", "a", 1, "a.test"), claimOf("shop", "b", 2, "b.test"),
		claimOf("evil", "x", 3, "b.test"))
	inputs.Options.MaxObjects = 1
	expectServed(t, inputs, []string{"a.test/ shop/a", "b.test/ evil/x"},
		map[string]string{"shop/b": httpv1alpha1.ReasonNamespaceLimit})
}

// TestARemovedHostIsReleased has an owner with an error that keeps the routes of a host that it no longer names. They
// are served until another namespace names the host.
func TestARemovedHostIsReleased(t *testing.T) {
	t.Parallel()
	inputs := sharedInputs(claimOf("shop", "shop", 1, "shop.test"))
	inputs.Published, _ = resolve.Build(inputs)
	moved := withHeader("not a header", claimOf("shop", "shop", 1, "new.test"))
	inputs.ScaledObjects = []*httpv1alpha1.HTTPScaledObject{moved}
	expectServed(t, inputs, []string{"shop.test/ shop/shop"},
		map[string]string{"shop/shop": httpv1alpha1.ReasonInvalidHeaders})
	inputs.ScaledObjects = append(inputs.ScaledObjects,
		claimOf("evil", "x", 2, "shop.test"), claimOf("evil", "y", 3, "new.test"))
	expectServed(t, inputs, []string{"shop.test/ evil/x"}, map[string]string{
		"shop/shop": httpv1alpha1.ReasonRouteConflict, "evil/y": httpv1alpha1.ReasonRouteConflict,
		"evil/x": httpv1alpha1.ReasonHostClaimedByOther,
	})
}
