package model

// Held says of each backend of a Route whether requests for it wait for a first endpoint: its workload
// may have no replica, it has a share in effect, and nothing of it is ready. So with 0 ready endpoints
// the stable backend's requests wait, and a canary's go to it, unless the stable backend's weight is 0.
// A backend whose Service or port is not there has none to wait for.
func Held(route Route, services map[ServicePort]Endpoints) []bool {
	held := make([]bool, len(route.Backends))
	if route.MinReplicas > 0 {
		return held
	}
	for i, weight := range EffectiveWeights(route.Backends, services) {
		endpoints := services[route.Backends[i].ServicePort()]
		held[i] = weight > 0 && !endpoints.IsMissing && len(endpoints.Ready) == 0
	}
	return held
}
