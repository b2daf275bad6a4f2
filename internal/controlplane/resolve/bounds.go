package resolve

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// exceeded says whether a namespace with so many objects and hosts is over a bound.
func (o Options) exceeded(objects, hosts int) bool {
	return o.MaxObjects > 0 && objects > o.MaxObjects || o.MaxHosts > 0 && hosts > o.MaxHosts
}

// excess returns the objects of one namespace that are over its bounds, which are not served, with
// what is wrong. The oldest objects are within: a new one never takes anything from an older one.
func (o Options) excess(objects []*httpv1alpha1.HTTPScaledObject) map[model.Key]mistake {
	slices.SortFunc(objects, byAge)
	over := map[model.Key]mistake{}
	served, hosts := 0, 0
	for _, object := range objects {
		own := countHosts(object)
		switch {
		case o.MaxObjects > 0 && served == o.MaxObjects:
			over[ownerOf(object).key] = overLimit(object, fmt.Sprintf(
				"%d HTTPScaledObjects are served, the oldest ones, and this one is over that limit",
				o.MaxObjects), "--max-objects-per-namespace")
		case o.MaxHosts > 0 && hosts+own > o.MaxHosts:
			over[ownerOf(object).key] = overLimit(object, fmt.Sprintf(
				"%d hosts are served, those of the oldest HTTPScaledObjects, and this one's %d are over that "+
					"limit", o.MaxHosts, own), "--max-hosts-per-namespace")
		default:
			served, hosts = served+1, hosts+own
		}
	}
	return over
}

// overLimit is the mistake of an object that is over a bound.
func overLimit(object *httpv1alpha1.HTTPScaledObject, what, flag string) mistake {
	return mistake{httpv1alpha1.ReasonNamespaceLimit, fmt.Sprintf(
		"of namespace %q %s; remove what is not needed, use another namespace, or have the interceptor "+
			"started with a higher %s",
		object.Namespace, what, flag)}
}

// countHosts is how many hosts an object may have in force: of too many none is read.
func countHosts(object *httpv1alpha1.HTTPScaledObject) int {
	return min(len(object.Spec.Hosts), MaxHosts)
}

// byAge puts the oldest object first, then the first by namespace and name.
func byAge(a, b *httpv1alpha1.HTTPScaledObject) int {
	return cmp.Or(
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
	)
}

// allExcess is excess for the objects of all namespaces.
func (o Options) allExcess(objects []*httpv1alpha1.HTTPScaledObject) map[model.Key]mistake {
	namespaces := map[string]*census{}
	byKey := make(map[model.Key]*httpv1alpha1.HTTPScaledObject, len(objects))
	for _, object := range objects {
		key := ownerOf(object).key
		byKey[key] = object
		censusOf(namespaces, key.Namespace).replace(key, nil, object)
	}
	over := map[model.Key]mistake{}
	for namespace, own := range namespaces {
		own.judge(o, func(name string) *httpv1alpha1.HTTPScaledObject {
			return byKey[model.Key{Namespace: namespace, Name: name}]
		})
		maps.Copy(over, own.excess)
	}
	return over
}

// census counts the objects of one namespace.
type census struct {
	objects map[string]struct{} // by name
	hosts   int
	excess  map[model.Key]mistake
}

// censusOf returns the census of a namespace, and begins it if need be.
func censusOf(namespaces map[string]*census, namespace string) *census {
	found := namespaces[namespace]
	if found == nil {
		found = &census{objects: map[string]struct{}{}}
		namespaces[namespace] = found
	}
	return found
}

// replace counts one version of an object in the place of another one; nil stands for none.
func (c *census) replace(key model.Key, before, now *httpv1alpha1.HTTPScaledObject) {
	if before != nil {
		c.hosts -= countHosts(before)
	}
	if now == nil {
		delete(c.objects, key.Name)
		return
	}
	c.objects[key.Name] = struct{}{}
	c.hosts += countHosts(now)
}

// judge finds the objects that are over the bounds, and returns those of which that is new or was
// otherwise. Within the bounds it costs nothing.
func (c *census) judge(
	options Options, find func(name string) *httpv1alpha1.HTTPScaledObject,
) (changed []model.Key) {
	before := c.excess
	c.excess = nil
	if options.exceeded(len(c.objects), c.hosts) {
		own := make([]*httpv1alpha1.HTTPScaledObject, 0, len(c.objects))
		for name := range c.objects {
			own = append(own, find(name))
		}
		c.excess = options.excess(own)
	}
	for key, wrong := range c.excess {
		if before[key] != wrong {
			changed = append(changed, key)
		}
	}
	for key := range before {
		if _, still := c.excess[key]; !still {
			changed = append(changed, key)
		}
	}
	return changed
}
