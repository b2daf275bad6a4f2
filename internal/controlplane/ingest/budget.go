package ingest

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/interceptorroute"
)

const (
	// objectBytes and routeBytes are what an object and one of its routes take in addition to the texts of the object.
	objectBytes, routeBytes = 1 << 10, 1 << 10
	// textBytes is what a text takes in addition to its length.
	textBytes = 16
	// maxStubStatus and maxStubTarget are the maximum lengths of the status and of the target that a stub keeps.
	maxStubStatus, maxStubTarget = 8 << 10, 1 << 10
)

// budget bounds the memory for the HTTPScaledObjects of each namespace. The oldest objects are kept, up to the first
// one with which the namespace exceeds the bound. Of this and of all younger ones only stubs are kept. So what is kept
// is a function of the stored objects, whatever the order in which they arrive, and a new object displaces no older one.
type budget struct {
	limit      int // in bytes
	namespaces map[string]*namespaceBudget
}

// newBudget returns an empty budget of a number of bytes for each namespace, nil for 0.
func newBudget(limit int) *budget {
	if limit == 0 {
		return nil
	}
	return &budget{limit, map[string]*namespaceBudget{}}
}

// namespaceBudget are the objects of one namespace.
type namespaceBudget struct {
	entries []budgetEntry // oldest first
	// kept is the number of the first entries that are within the bound, and bytes their size.
	kept, bytes int
	stubs       int // the number of stubs among all entries
}

// budgetEntry is a whole object or a stub, with the size of the whole object.
type budgetEntry struct {
	object *httpv1alpha1.HTTPScaledObject
	size   int
}

// stubs are stubs by the whole objects that they replace.
type stubs map[*httpv1alpha1.HTTPScaledObject]*httpv1alpha1.HTTPScaledObject

// replace replaces a version of an object, nil if it is missing, by another one. It returns the objects that exceed the
// bound since, each with the stub to keep instead.
func (b *budget) replace(before, after *httpv1alpha1.HTTPScaledObject) stubs {
	if b == nil || before == nil && after == nil {
		return nil
	}
	namespace := cmp.Or(before, after).Namespace
	n := b.namespaces[namespace]
	if n == nil {
		n = new(namespaceBudget)
		b.namespaces[namespace] = n
	}
	if before != nil {
		n.remove(before)
	}
	if after != nil {
		n.insert(after)
	}
	excess := n.shrink(b.limit)
	n.grow(b.limit)
	if after != nil && !isStub(after) && n.index(after) >= n.kept && !slices.Contains(excess, after) {
		excess = append(excess, after)
	}
	replaced := make(stubs, len(excess))
	for _, object := range excess {
		entry := &n.entries[n.index(object)]
		replaced[object] = newStub(object, entry.size)
		entry.object = replaced[object]
		n.stubs++
	}
	if len(n.entries) == 0 {
		delete(b.namespaces, namespace)
	}
	return replaced
}

// reset removes all objects.
func (b *budget) reset() {
	if b != nil {
		clear(b.namespaces)
	}
}

// missing returns at most limit stubs of each namespace that are within the bound, oldest first: they have to be read
// again.
func (b *budget) missing(limit int) [][]*httpv1alpha1.HTTPScaledObject {
	if b == nil {
		return nil
	}
	var all [][]*httpv1alpha1.HTTPScaledObject
	for _, n := range b.namespaces {
		if n.stubs == 0 {
			continue
		}
		var stubs []*httpv1alpha1.HTTPScaledObject
		for _, entry := range n.entries[:n.kept] {
			if isStub(entry.object) && len(stubs) < limit {
				stubs = append(stubs, entry.object)
			}
		}
		if len(stubs) > 0 {
			all = append(all, stubs)
		}
	}
	return all
}

// index returns the position of an object, or the one at which to insert it.
func (n *namespaceBudget) index(object *httpv1alpha1.HTTPScaledObject) int {
	index, _ := slices.BinarySearchFunc(n.entries, object,
		func(entry budgetEntry, object *httpv1alpha1.HTTPScaledObject) int {
			return cmp.Or(entry.object.CreationTimestamp.Compare(object.CreationTimestamp.Time),
				cmp.Compare(entry.object.Name, object.Name))
		})
	return index
}

// remove removes an object.
func (n *namespaceBudget) remove(object *httpv1alpha1.HTTPScaledObject) {
	index := n.index(object)
	entry := n.entries[index]
	if index < n.kept {
		n.kept, n.bytes = n.kept-1, n.bytes-entry.size
	}
	if isStub(entry.object) {
		n.stubs--
	}
	n.entries = slices.Delete(n.entries, index, index+1)
}

// insert inserts an object. The caller has to call shrink.
func (n *namespaceBudget) insert(object *httpv1alpha1.HTTPScaledObject) {
	index, entry := n.index(object), budgetEntry{object, sizeOf(object)}
	n.entries = slices.Insert(n.entries, index, entry)
	if index <= n.kept {
		n.kept, n.bytes = n.kept+1, n.bytes+entry.size
	}
	if isStub(object) {
		n.stubs++
	}
}

// shrink reduces the kept entries to the limit, and returns the whole objects among those that no longer are.
func (n *namespaceBudget) shrink(limit int) (excess []*httpv1alpha1.HTTPScaledObject) {
	for n.bytes > limit {
		n.kept--
		entry := n.entries[n.kept]
		n.bytes -= entry.size
		if !isStub(entry.object) {
			excess = append(excess, entry.object)
		}
	}
	return excess
}

// grow adds the next entries that are within the limit to the kept ones.
func (n *namespaceBudget) grow(limit int) {
	for n.kept < len(n.entries) && n.bytes+n.entries[n.kept].size <= limit {
		n.bytes += n.entries[n.kept].size
		n.kept++
	}
}

// isStub reports whether an object is a stub.
func isStub(object *httpv1alpha1.HTTPScaledObject) bool { return object.Spec.OmittedBytes > 0 }

// newStub returns what is kept of an object above the bound: what its status and the bounds of the namespace need.
func newStub(object *httpv1alpha1.HTTPScaledObject, size int) *httpv1alpha1.HTTPScaledObject {
	stub := &httpv1alpha1.HTTPScaledObject{
		ObjectMeta: metav1.ObjectMeta{
			Name: object.Name, Namespace: object.Namespace, UID: object.UID, ResourceVersion: object.ResourceVersion,
			Generation: object.Generation, CreationTimestamp: object.CreationTimestamp,
			DeletionTimestamp: object.DeletionTimestamp,
		},
		Spec: httpv1alpha1.HTTPScaledObjectSpec{OmittedBytes: size, OmittedHosts: resolve.CountHosts(object.Spec)},
	}
	if interceptorroute.IsConverted(object) {
		stub.Spec.Converted = &httpv1alpha1.ConvertedSpec{}
	}
	if object.Annotations[httpv1alpha1.AnnotationFleet] == httpv1alpha1.FleetShared {
		metav1.SetMetaDataAnnotation(&stub.ObjectMeta, httpv1alpha1.AnnotationFleet, httpv1alpha1.FleetShared)
	}
	if metav1.HasAnnotation(object.ObjectMeta, httpv1alpha1.AnnotationStatus) {
		metav1.SetMetaDataAnnotation(&stub.ObjectMeta, httpv1alpha1.AnnotationStatus, "")
	}
	if target := object.Spec.ScaleTargetRef; sizeOfTarget(target) <= maxStubTarget {
		stub.Spec.ScaleTargetRef = target
	}
	stub.Status = stubStatus(object.Status)
	return stub
}

// stubStatus returns the status up to a size that no status of the interceptor exceeds for an object above the bound.
// What is left out is written again.
func stubStatus(status httpv1alpha1.HTTPScaledObjectStatus) httpv1alpha1.HTTPScaledObjectStatus {
	kept := httpv1alpha1.HTTPScaledObjectStatus{}
	size := len(status.TargetWorkload) + len(status.TargetService)
	if size <= maxStubTarget {
		kept.TargetWorkload, kept.TargetService = status.TargetWorkload, status.TargetService
	}
	for _, condition := range status.Conditions {
		if size += textBytes + len(condition.Type) + len(condition.Reason) + len(condition.Message); size <= maxStubStatus {
			kept.Conditions = append(kept.Conditions, condition)
		}
	}
	if report := status.DataPlane; report != nil {
		if size += sizeOfTexts(report.StableHashes) + len(report.WeightedBackends) + len(report.ManagedRoutes) +
			len(report.Stickiness) + len(report.SessionAffinity) + len(report.AutowireSettings); size <= maxStubStatus {
			kept.DataPlane = report
		}
	}
	return kept
}

// sizeOf returns the memory that an object takes, approximately: that of its spec, its annotations, and the routes that
// it may have in the proxies.
func sizeOf(object *httpv1alpha1.HTTPScaledObject) int {
	spec := object.Spec
	if isStub(object) {
		return spec.OmittedBytes
	}
	size := objectBytes + sizeOfTarget(spec.ScaleTargetRef) + len(spec.Unreadable)
	for _, rule := range resolve.RulesOf(spec) {
		size += sizeOfRule(rule)
	}
	size += min(resolve.CountMatches(spec), resolve.MaxRoutes) * routeBytes
	if failover := spec.ColdStartTimeoutFailoverRef; failover != nil {
		size += len(failover.Service) + len(failover.PortName)
	}
	for _, name := range observedAnnotations() {
		size += len(object.Annotations[name])
	}
	return size
}

// sizeOfRule returns the memory that the texts of a rule take.
func sizeOfRule(rule httpv1alpha1.Rule) int {
	size := sizeOfTexts(rule.Hosts) + sizeOfTexts(rule.PathPrefixes)
	for _, header := range rule.Headers {
		size += 2*textBytes + len(header.Name)
		for _, value := range []*string{header.Value, header.ValueWildcard, header.ValueRegex} {
			if value != nil {
				size += len(*value)
			}
		}
	}
	return size
}

// sizeOfTarget returns the size of the texts of a target.
func sizeOfTarget(target httpv1alpha1.ScaleTargetRef) int {
	return sizeOfTexts([]string{target.Name, target.APIVersion, target.Kind, target.Service, target.PortName})
}

// sizeOfTexts returns the memory that texts take.
func sizeOfTexts(texts []string) int {
	size := len(texts) * textBytes
	for _, text := range texts {
		size += len(text)
	}
	return size
}

// ListTrimmer trims the objects of one list, see Trim. It keeps only stubs of HTTPScaledObjects above the bound of
// their namespace, so that a list never takes more memory than the objects afterwards.
type ListTrimmer struct{ budget *budget }

// NewListTrimmer returns a ListTrimmer with a bound in bytes for the HTTPScaledObjects of each namespace, 0 for none.
func NewListTrimmer(limit int) ListTrimmer { return ListTrimmer{newBudget(limit)} }

// Trim trims the next object. It may replace objects of earlier calls by stubs.
func (t ListTrimmer) Trim(object metav1.Object) {
	Trim(object)
	if scaledObject, ok := object.(*httpv1alpha1.HTTPScaledObject); ok {
		for whole, stub := range t.budget.replace(nil, scaledObject) {
			whole.ObjectMeta, whole.Spec, whole.Status = stub.ObjectMeta, stub.Spec, stub.Status
		}
	}
}
