package resolve_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// randomClaims returns valid objects of the shared fleet with overlapping hosts, each of another age.
func randomClaims(random *rand.Rand) []*httpv1alpha1.HTTPScaledObject {
	hosts := []string{
		"*", "*.test", "*.a.test", "a.test", "b.test", "x.a.test", "y.a.test", "*.x.a.test", "z.x.a.test", "b.org", "*.org",
	}
	namespaces := []string{"shop", "evil", "team"}
	var objects []*httpv1alpha1.HTTPScaledObject
	for i, rank := range random.Perm(2 + random.IntN(8)) {
		object := claimOf(namespaces[random.IntN(3)], fmt.Sprint("o", i), rank,
			hosts[random.IntN(len(hosts))], hosts[random.IntN(len(hosts))])
		if random.IntN(2) == 0 {
			object = below([]string{"/a", "/b"}[random.IntN(2)], object)
		}
		objects = append(objects, object)
	}
	return objects
}

// covers reports whether requests for a host, or for a name that it covers, match the other host.
func covers(wide, host string) bool {
	suffix, isWildcard := strings.CutPrefix(wide, "*")
	return wide == host || isWildcard && host != "*" && strings.HasSuffix(strings.TrimPrefix(host, "*"), suffix) &&
		strings.TrimPrefix(host, "*") != suffix
}

// TestTheOldestClaimDecidesTheNamespace compares Build with the rule, without delegation: all routes of a host are of
// the namespace of the oldest object with a host that covers it, and that namespace is served.
func TestTheOldestClaimDecidesTheNamespace(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		objects := randomClaims(rand.New(rand.NewPCG(seed, 5)))
		slices.SortFunc(objects, func(a, b *httpv1alpha1.HTTPScaledObject) int {
			return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
		})
		want := map[string]string{} // namespace by host, of hosts that its namespace claims
		for _, object := range objects {
			for _, host := range object.Spec.Hosts {
				owner := objects[slices.IndexFunc(objects, func(older *httpv1alpha1.HTTPScaledObject) bool {
					return slices.ContainsFunc(older.Spec.Hosts, func(wide string) bool { return covers(wide, host) })
				})]
				if owner.Namespace == object.Namespace {
					want[host] = owner.Namespace
				}
			}
		}
		got := map[string]string{}
		config, _ := resolve.Build(sharedInputs(objects...))
		for _, route := range config.Routes {
			host := string(route.Match.Host)
			if other := cmp.Or(got[host], route.Owner.Namespace); other != route.Owner.Namespace {
				t.Errorf("seed %d: %s is served for %s and %s", seed, host, other, route.Owner.Namespace)
			}
			got[host] = route.Owner.Namespace
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d: namespaces of hosts (-want +got):\n%s", seed, diff)
		}
	}
}

// TestANewObjectTakesNothing adds the youngest object to random ones, some of which delegate their hosts: the routes of
// the other objects stay the same.
func TestANewObjectTakesNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 6))
		objects := randomClaims(random)
		for i := range objects {
			if random.IntN(2) == 0 {
				objects[i] = allowing([]string{"*", "evil", "shop,team"}[random.IntN(3)], objects[i])
			}
		}
		before, _ := resolve.Build(sharedInputs(objects...))
		youngest := randomClaims(random)[0]
		youngest.Name, youngest.CreationTimestamp = "youngest", kit.NewScaledObject("a", "a", "a", 99).CreationTimestamp
		after, _ := resolve.Build(sharedInputs(append(objects, youngest)...))
		after.Routes = slices.DeleteFunc(after.Routes, func(route model.Route) bool { return route.Owner.Name == "youngest" })
		if diff := gocmp.Diff(before.Routes, after.Routes); diff != "" {
			t.Fatalf("seed %d: routes of the other objects (-without +with):\n%s", seed, diff)
		}
	}
}

// TestUnaffectedHostsBelowAWildcard claims a wildcard above many older hosts of another namespace, delegates it and
// releases it: no object with one of these hosts is affected.
func TestUnaffectedHostsBelowAWildcard(t *testing.T) {
	t.Parallel()
	change := resolve.Change{
		ScaledObjects: map[model.Key]*httpv1alpha1.HTTPScaledObject{}, Services: map[model.Key]*resolve.Service{},
	}
	for _, service := range servicesOf("shop", "evil") {
		change.Services[service.Key] = service
	}
	set := func(objects ...*httpv1alpha1.HTTPScaledObject) resolve.Change {
		changed := resolve.Change{ScaledObjects: map[model.Key]*httpv1alpha1.HTTPScaledObject{}}
		for _, object := range objects {
			changed.ScaledObjects[model.Key{Namespace: object.Namespace, Name: object.Name}] = object
		}
		return changed
	}
	for i := range 100 {
		object := claimOf("shop", fmt.Sprint("o", i), 1, fmt.Sprintf("h%d.shop.test", i))
		change.ScaledObjects[model.Key{Namespace: "shop", Name: object.Name}] = object
	}
	resolver := resolve.NewResolver(resolve.Options{SharedFleet: "keda"}, nil)
	resolver.Update(change)
	wildcard := claimOf("evil", "x", 2, "*.shop.test")
	for i, step := range []resolve.Change{
		set(wildcard), set(allowing("team", wildcard)),
		{ScaledObjects: map[model.Key]*httpv1alpha1.HTTPScaledObject{{Namespace: "evil", Name: "x"}: nil}},
	} {
		if outcome := resolver.Update(step); len(outcome.Affected) != 1 {
			t.Errorf("step %d: %d objects are affected, want 1", i, len(outcome.Affected))
		}
	}
}

// TestOwnersSurviveARestart changes random objects, many of them invalid, and compares the owners that a Resolver
// reports with those of Build without published Routes, as after a restart: who owns a host is a function of the stored
// objects alone.
func TestOwnersSurviveARestart(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 7))
		resolver := resolve.NewResolver(resolve.Options{SharedFleet: "keda", MaxObjects: 4}, nil)
		stored, problems := map[model.Key]*httpv1alpha1.HTTPScaledObject{}, map[model.Key][]model.Problem{}
		for step := range 20 {
			change := resolve.Change{ScaledObjects: map[model.Key]*httpv1alpha1.HTTPScaledObject{}}
			for _, object := range randomClaims(random)[:2] {
				object.Spec.Hosts = object.Spec.Hosts[:1] // so that a message names all hosts
				object = withRandomError(random, object)
				putOrDelete(random, change.ScaledObjects, model.Key{Namespace: object.Namespace, Name: object.Name}, object)
			}
			applyTo(stored, change.ScaledObjects)
			maps.Copy(problems, resolver.Update(change).Problems)
			inputs := sharedInputs(slices.Collect(maps.Values(stored))...)
			inputs.Options.MaxObjects = 4
			_, restarted := resolve.Build(inputs)
			running := slices.Concat(slices.Collect(maps.Values(problems))...)
			if diff := gocmp.Diff(foreignOwners(stored, restarted), foreignOwners(stored, running)); diff != "" {
				t.Fatalf("seed %d, step %d: owners of claimed hosts (-restarted +running):\n%s", seed, step, diff)
			}
		}
	}
}

// foreignOwners returns the owner of each host that an object of another namespace names, by object and host.
func foreignOwners(
	stored map[model.Key]*httpv1alpha1.HTTPScaledObject, problems []model.Problem,
) map[string]string {
	owners := map[string]string{}
	for _, problem := range problems {
		hosts, rest, isForeign := strings.Cut(strings.TrimPrefix(problem.Message, "spec.hosts: "), ": belongs to namespace")
		if !isForeign {
			continue
		}
		_, rest, _ = strings.Cut(rest, "HTTPScaledObject ")
		owner, _, _ := strings.Cut(rest, " ")
		for host := range strings.SplitSeq(hosts, ", ") {
			if slices.Contains(stored[problem.On].Spec.Hosts, host) { // Otherwise it is published, and no longer named.
				owners[problem.On.String()+" "+host] = owner
			}
		}
	}
	return owners
}

// withRandomError returns an object with an error in half of the cases. All hosts of the object parse.
func withRandomError(random *rand.Rand, object *httpv1alpha1.HTTPScaledObject) *httpv1alpha1.HTTPScaledObject {
	switch random.IntN(8) {
	case 0:
		return withHeader("not a header", object)
	case 1:
		return unreadable(object)
	case 2:
		return inFleet("shred", object)
	case 3:
		return below("no path", object)
	default:
		return object
	}
}
