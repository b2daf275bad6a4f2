package route

import "testing"

// BenchmarkApply measures one call on a route of three rules with two managed routes, as in each reconcile.
func BenchmarkApply(b *testing.B) {
	g := newGenerator(3)
	object := g.object(HTTPRoute, true)
	want := usual()
	want.Weights = &Weights{Stable: 80, Canary: 20}
	want.ManagedRoutes = &[]ManagedRoute{
		{Name: "qa", Header: []HeaderMatch{{Name: "role", Type: Exact, Value: "qa"}}},
		{Name: "beta", Header: []HeaderMatch{{Name: "beta", Type: Exact, Value: "1"}}},
	}
	object, _, err := Apply(object, want)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, report, err := Apply(object, want); err != nil || report.Changed {
			b.Fatal(report, err)
		}
	}
}
