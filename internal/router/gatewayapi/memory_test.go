package gatewayapi

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
)

// TestTenThousandRoutesNeedLittleMemory has a cluster with many routes, few of which are used. It is not parallel,
// because it measures the whole heap.
func TestTenThousandRoutesNeedLittleMemory(t *testing.T) { //nolint:paralleltest // see above
	const (
		routes, used = 10_000, 50
		limit        = 10 << 20 // bytes; whole they take 170 MB
	)
	rule := `{"matches":[{"path":{"type":"PathPrefix","value":"/%d"},"headers":[{"type":"Exact","name":"tenant","value":"shop"}]}],` +
		`"filters":[{"type":"RequestHeaderModifier","requestHeaderModifier":{"set":[{"name":"x-a","value":"b"}]}}],` +
		`"backendRefs":[{"group":"","kind":"Service","name":"web-stable","port":80,"weight":100},{"group":"","kind":"Service","name":"web-canary","port":80,"weight":0}]}`
	var rules []string
	for i := range 4 {
		rules = append(rules, fmt.Sprintf(rule, i))
	}
	cache := NewClient(func() (*rest.Config, error) { return nil, nil }).caches[route.HTTPRoute] //nolint:nilnil // never asked
	heap := func() uint64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	before := heap()
	for i := range routes {
		name := types.NamespacedName{Namespace: "shop", Name: fmt.Sprint("web-", i)}
		if i < used {
			cache.inUse.Store(name, true)
		}
		decoded, err := cache.decode(fmt.Appendf(nil, `{"metadata":{"namespace":"shop","name":%q,"resourceVersion":"%d","labels":{"app":"web"},"managedFields":[{"manager":"x"}]},`+
			`"spec":{"rules":[%s]}}`, name.Name, i+1, strings.Join(rules, ",")))
		if err != nil {
			t.Fatal(err)
		}
		cache.Put(decoded)
		if decoded.IsComplete() != (i < used) {
			t.Fatalf("route %d is whole: %v", i, decoded.IsComplete())
		}
	}
	if took := heap() - before; took > limit {
		t.Errorf("%d routes, %d of them in use, need %d KB, want at most %d", routes, used, took>>10, limit>>10)
	} else {
		t.Logf("%d routes, %d of them in use, need %d KB", routes, used, took>>10)
	}
	runtime.KeepAlive(cache)
}
