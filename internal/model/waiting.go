package model

// WaitsForEndpoint returns for each backend of a Route whether its requests wait for a first endpoint: the workload may
// have no replicas, the backend's effective weight is not 0, and it has no ready endpoint. So without ready endpoints
// the requests of the stable backend wait, and those of a canary go to the stable one, unless that one's weight is 0. A
// backend with a missing Service or port does not wait.
func WaitsForEndpoint(route Route, services map[ServicePort]Endpoints) []bool {
	waits := make([]bool, len(route.Backends))
	if route.MinReplicas > 0 {
		return waits
	}
	for i, weight := range EffectiveWeights(route.Backends, services) {
		endpoints := services[route.Backends[i].ServicePort()]
		waits[i] = weight > 0 && !endpoints.IsMissing && len(endpoints.Ready) == 0
	}
	return waits
}
