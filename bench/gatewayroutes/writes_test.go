package main

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

func TestBareWritesChangeOnlyWeights(t *testing.T) {
	t.Parallel()
	routeWith := func(stable, canary int) (route map[string]any) {
		text := fmt.Sprintf(`{"metadata": {"name": "web"}, "spec": {"hostnames": ["a.test"], "rules": [
			{"name": "both", "backendRefs": [{"name": "web-stable", "weight": %d}, {"name": "web-canary", "weight": %d}]},
			{"name": "other", "backendRefs": [{"name": "docs"}]}]}}`, stable, canary)
		if err := utiljson.Unmarshal([]byte(text), &route); err != nil {
			t.Fatal(err)
		}
		return route
	}
	route := routeWith(100, 0)
	setWeights(route, 30)
	if diff := cmp.Diff(routeWith(70, 30), route); diff != "" {
		t.Errorf("the route (-want +got):\n%s", diff)
	}
}
