package mutants

import "github.com/kedify/argo-rollouts-plugin/e2e/bed"

// mutant is an interceptor with one fault.
type mutant struct {
	name string
	// edits make the fault.
	edits []edit
	// caughtBy is the check that finds it.
	caughtBy bed.Check
}

// mutants are one for each check.
func mutants() []mutant {
	return []mutant{
		{"endpoints of stable and canary swapped under right weights", swappedEndpoints(), bed.CheckSplit},
		{"a cluster deleted before its route", clusterFirst(), bed.CheckFailedRequests},
		{"an ACK reported before Envoy's", earlyReport(), bed.CheckOrder},
		{"300 ms of a wrong weight", wrongAtFirst(), bed.CheckStrangeWeights},
		{"an abort that leaves 5 %", looseEnd(), bed.CheckEnd},
	}
}

// swappedEndpoints gives each of two backends the endpoints of the other one, as
// soon as that has some.
func swappedEndpoints() []edit {
	return []edit{{
		file:  "internal/translate/translator.go",
		right: "found = append(found, destination{cluster, backend.ServicePort(), held[i]})",
		wrong: `at := backend.ServicePort()
		opposite := route.Backends[len(route.Backends)-1-i].ServicePort()
		if len(services[opposite].Ready) > 0 {
			at = opposite
		}
		found = append(found, destination{cluster, at, held[i]})`,
	}}
}

// clusterFirst deletes a cluster as soon as no route that is desired names it, and
// lets some requests come before the routes that no longer do.
func clusterFirst() []edit {
	return []edit{{
		file:  "internal/xds/removal.go",
		right: "return due.IsZero() || s.now.Before(due) || s.mayBeUsed(name)",
		wrong: "return false",
	}, {
		file:  "internal/xds/stream.go",
		right: "s.options.Metrics.resources.WithLabelValues(r.kind.String()).Add(float64(len(r.resources) + len(r.removed)))",
		wrong: `s.options.Metrics.resources.WithLabelValues(r.kind.String()).Add(float64(len(r.resources) + len(r.removed)))
		if r.kind == clusterKind && len(r.removed) > 0 {
			time.Sleep(300 * time.Millisecond)
		}`,
	}}
}

// earlyReport counts every connected proxy as one that has taken what is
// published, and takes a while to send it routes.
func earlyReport() []edit {
	return []edit{{
		file:  "internal/status/dataplane.go",
		right: "hasAll = hasAll && (answer.Confirmed || !connected)",
		wrong: "_ = answer.Confirmed",
	}, {
		file:  "internal/xds/stream.go",
		right: "if err := t.send(r); err != nil {",
		wrong: `if r.kind == scopeKind {
			time.Sleep(time.Second)
		}
		if err := t.send(r); err != nil {`,
	}}
}

// wrongAtFirst publishes ten percent too much for the canary, and 300 ms later
// what is right.
func wrongAtFirst() []edit {
	const file = "internal/xds/server.go"
	return []edit{{
		file:  file,
		right: `discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"`,
		wrong: `routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"`,
	}, {
		file:  file,
		right: "func (s *Server) ApplyDelta(d Delta) error {\n",
		wrong: `func (s *Server) ApplyDelta(d Delta) error {
	if right := d.Changed[resourcev3.ScopedRouteType]; len(right) > 0 {
		wrong := map[string]proto.Message{}
		for name, message := range right {
			scope := proto.CloneOf(message.(*routev3.ScopedRouteConfiguration))
			for _, host := range scope.GetRouteConfiguration().GetVirtualHosts() {
				for _, route := range host.GetRoutes() {
					if shares := route.GetRoute().GetWeightedClusters().GetClusters(); len(shares) == 2 && shares[0].Weight.Value > 10 {
						shares[0].Weight.Value -= 10
						shares[1].Weight.Value += 10
					}
				}
			}
			wrong[name] = scope
		}
		d.Changed[resourcev3.ScopedRouteType] = wrong
		if err := s.follow(d.Fleet, func(before *snapshot) (*snapshot, error) { return before.apply(d) }); err != nil {
			return err
		}
		time.Sleep(300 * time.Millisecond)
		d = Delta{Fleet: d.Fleet, Changed: map[string]map[string]proto.Message{resourcev3.ScopedRouteType: right}}
	}
`,
	}}
}

// looseEnd leaves 5 % on the canary when its weights are taken away.
func looseEnd() []edit {
	const right = "by := ownerOf(object)\n\troutes := make([]ir.Route, 0, len(matches))"
	return []edit{{
		file:  "internal/resolve/resolve.go",
		right: right,
		wrong: `if !hasAnnotation(object) && len(inForce) > 0 && len(inForce[0].Backends) == 2 {
		backends = slices.Clone(inForce[0].Backends)
		backends[0].Weight, backends[1].Weight = 95, 5
	}
	` + right,
	}}
}
