package resolve

import (
	"cmp"
	"fmt"
	"slices"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

const (
	// bytesPerObject is the memory for the objects of a namespace, for each object that it may have. Most objects take a
	// fifth of it. minObjectBytes is that of a namespace with few objects: more than the largest object takes.
	bytesPerObject, minObjectBytes = 16 << 10, 4 << 20
)

// MaxObjectBytes returns the maximum memory for the HTTPScaledObjects of a namespace, 0 for no limit. Of objects above
// it only a stub is kept, with spec.OmittedBytes.
func (o Options) MaxObjectBytes() int {
	if o.MaxObjects <= 0 {
		return 0
	}
	return max(o.MaxObjects*bytesPerObject, minObjectBytes)
}

// isExceeded reports whether a namespace with these numbers of objects and hosts exceeds a limit.
func (o Options) isExceeded(objects, hosts int) bool {
	return o.MaxObjects > 0 && objects > o.MaxObjects || o.MaxHosts > 0 && hosts > o.MaxHosts
}

// objectsOverLimits returns the objects of one namespace that exceed its limits, with the issue. They are not served.
// Older objects take precedence, so that a new object never displaces an older one.
func (o Options) objectsOverLimits(objects []*httpv1alpha1.HTTPScaledObject) map[model.Key]issue {
	slices.SortFunc(objects, compareAge)
	over := map[model.Key]issue{}
	served, hosts := 0, 0
	for _, object := range objects {
		hostCount := countHosts(object)
		switch {
		case o.MaxObjects > 0 && served == o.MaxObjects:
			over[ownerOf(object).key] = limitIssue(object, fmt.Sprintf(
				"the limit of %d HTTPScaledObjects and InterceptorRoutes is reached, and older objects take precedence",
				o.MaxObjects), "--max-objects-per-namespace")
		case o.MaxHosts > 0 && hosts+hostCount > o.MaxHosts:
			over[ownerOf(object).key] = limitIssue(object, fmt.Sprintf(
				"the limit of %d hosts is exceeded with the %d hosts of this object, and older objects take precedence",
				o.MaxHosts, hostCount), "--max-hosts-per-namespace")
		case object.Spec.OmittedBytes > 0:
			over[ownerOf(object).key] = limitIssue(object, fmt.Sprintf(
				"the limit of %d MiB for all objects of kind %s is exceeded with the %d KiB of this object, and older objects "+
					"take precedence", o.MaxObjectBytes()>>20, kindOf(object), object.Spec.OmittedBytes>>10), "--max-objects-per-namespace")
			served, hosts = served+1, hosts+hostCount
		default:
			served, hosts = served+1, hosts+hostCount
		}
	}
	return over
}

// limitIssue returns the issue of an object that exceeds a limit.
func limitIssue(object *httpv1alpha1.HTTPScaledObject, problem, flag string) issue {
	return issue{httpv1alpha1.ReasonNamespaceLimit, fmt.Sprintf(
		"namespace %q: %s: remove unused objects or hosts, use another namespace, or have the operator raise the "+
			"interceptor's %s",
		object.Namespace, problem, flag)}
}

// countHosts returns the number of hosts that an object may have published. An object without hosts counts with one,
// which stands for all, and a rule with too many hosts with MaxHosts, because none of them is read.
func countHosts(object *httpv1alpha1.HTTPScaledObject) int {
	if object.Spec.OmittedBytes > 0 {
		return min(max(object.Spec.OmittedHosts, 1), MaxRoutes)
	}
	return min(max(CountHosts(object.Spec), 1), MaxRoutes)
}

// CountHosts returns the number of hosts that the rules of a spec may have published.
func CountHosts(spec httpv1alpha1.HTTPScaledObjectSpec) int {
	hosts := 0
	for _, rule := range RulesOf(spec) {
		hosts += min(max(len(rule.Hosts), 1), MaxHosts)
	}
	return hosts
}

// compareAge orders objects by age, oldest first, then by namespace and name.
func compareAge(a, b *httpv1alpha1.HTTPScaledObject) int {
	return cmp.Or(
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
	)
}

// namespaceLimits are the usages of all namespaces with their limits applied.
type namespaceLimits map[string]*namespaceUsage

// limitsOf returns the usages of all namespaces.
func (o Options) limitsOf(objects []*httpv1alpha1.HTTPScaledObject, read ConfigMaps) namespaceLimits {
	namespaces := namespaceLimits{}
	byKey := make(map[model.Key]*httpv1alpha1.HTTPScaledObject, len(objects))
	for _, object := range objects {
		key := ownerOf(object).key
		byKey[key] = object
		usage := usageOf(namespaces, key.Namespace)
		usage.replace(key, nil, object)
		usage.setStatic(key.Name, staticBytes(object, parseStatic(object), read))
	}
	for namespace, usage := range namespaces {
		usage.applyLimits(o, func(name string) *httpv1alpha1.HTTPScaledObject {
			return byKey[model.Key{Namespace: namespace, Name: name}]
		})
	}
	return namespaces
}

// overLimits returns the issue of an object that is not served.
func (n namespaceLimits) overLimits(object model.Key) (over issue, isOver bool) {
	over, isOver = n[object.Namespace].overLimits[object]
	return over, isOver
}

// isOverStatic reports whether the static responses of an object exceed the limit of its namespace.
func (n namespaceLimits) isOverStatic(object model.Key) bool {
	_, isOver := n[object.Namespace].overStatic[object]
	return isOver
}

// namespaceUsage counts the objects, the hosts and the bytes of static responses of one namespace.
type namespaceUsage struct {
	objects    map[string]struct{} // by name
	hosts      int
	omitted    int // the number of objects with spec.OmittedBytes
	overLimits map[model.Key]issue
	// static are the bytes of static responses by the name of the object, and staticBytes is their sum. overStatic are
	// the objects that exceed the limit.
	static      map[string]int
	staticBytes int
	overStatic  map[model.Key]struct{}
}

// setStatic sets the bytes of the static responses of an object, 0 for none.
func (u *namespaceUsage) setStatic(name string, bytes int) {
	u.staticBytes += bytes - u.static[name]
	if u.static[name] = bytes; bytes == 0 {
		delete(u.static, name)
	}
}

// usageOf returns the usage of a namespace and creates it if necessary.
func usageOf(namespaces map[string]*namespaceUsage, namespace string) *namespaceUsage {
	usage := namespaces[namespace]
	if usage == nil {
		usage = &namespaceUsage{objects: map[string]struct{}{}, static: map[string]int{}}
		namespaces[namespace] = usage
	}
	return usage
}

// replace updates the counts for a new version of an object; nil stands for no object.
func (u *namespaceUsage) replace(key model.Key, before, now *httpv1alpha1.HTTPScaledObject) {
	if before != nil {
		u.hosts -= countHosts(before)
		u.omitted -= min(before.Spec.OmittedBytes, 1)
	}
	if now == nil {
		delete(u.objects, key.Name)
		return
	}
	u.objects[key.Name] = struct{}{}
	u.hosts += countHosts(now)
	u.omitted += min(now.Spec.OmittedBytes, 1)
}

// applyLimits determines the objects that exceed the limits, and returns those with a different result than before.
// It does nothing if no limit is exceeded.
func (u *namespaceUsage) applyLimits(
	options Options, find func(name string) *httpv1alpha1.HTTPScaledObject,
) (changed []model.Key) {
	before := u.overLimits
	u.overLimits = nil
	if u.omitted > 0 || options.isExceeded(len(u.objects), u.hosts) {
		objects := make([]*httpv1alpha1.HTTPScaledObject, 0, len(u.objects))
		for name := range u.objects {
			objects = append(objects, find(name))
		}
		u.overLimits = options.objectsOverLimits(objects)
	}
	for key, issue := range u.overLimits {
		if before[key] != issue {
			changed = append(changed, key)
		}
	}
	for key := range before {
		if _, isOver := u.overLimits[key]; !isOver {
			changed = append(changed, key)
		}
	}
	return append(changed, u.applyStaticLimit(options, find)...)
}

// applyStaticLimit determines the objects whose static responses exceed the limit, and returns those with a different
// result than before. Older objects take precedence.
func (u *namespaceUsage) applyStaticLimit(
	options Options, find func(name string) *httpv1alpha1.HTTPScaledObject,
) (changed []model.Key) {
	before, total := u.overStatic, 0
	u.overStatic = nil
	if u.staticBytes > options.maxStaticBytes() {
		objects := make([]*httpv1alpha1.HTTPScaledObject, 0, len(u.static))
		for name := range u.static {
			objects = append(objects, find(name))
		}
		slices.SortFunc(objects, compareAge)
		u.overStatic = map[model.Key]struct{}{}
		for _, object := range objects {
			if total += u.static[object.Name]; total > options.maxStaticBytes() {
				u.overStatic[ownerOf(object).key] = struct{}{}
			}
		}
	}
	for _, sets := range [][2]map[model.Key]struct{}{{before, u.overStatic}, {u.overStatic, before}} {
		for key := range sets[0] {
			if _, isInBoth := sets[1][key]; !isInBoth {
				changed = append(changed, key)
			}
		}
	}
	return changed
}
