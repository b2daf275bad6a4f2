package route

import "testing"

// BenchmarkApply is one call on a route of three rules with two managed routes, as each reconcile makes it.
func BenchmarkApply(b *testing.B) {
	w := newWorld(3)
	object := w.object(HTTPRoute, true)
	want := usual()
	want.Weights = &Weights{Stable: 80, Canary: 20}
	want.Managed = &[]Managed{{Name: "qa", Header: []HeaderMatch{{Name: "role", Type: Exact, Value: "qa"}}}, {Name: "beta", Header: []HeaderMatch{{Name: "beta", Type: Exact, Value: "1"}}}}
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
