package model

// EffectiveWeights returns the weights that the proxies use for backends, in the same order, based on the ready
// endpoints:
//
//   - Backends with ready endpoints, and always the stable one, keep their desired weight.
//   - The weight of a canary or experiment without a ready endpoint goes to the stable backend, the first one.
//   - The weight of the stable backend never goes to a canary: the user requested no more traffic there.
//   - A backend with weight 0 never receives a request. So if the stable backend has weight 0, all weights stay as they
//     are.
//
// The sum of the weights stays the same. The desired split is active if the result equals the desired weights.
func EffectiveWeights(backends []Backend, services map[ServicePort]Endpoints) []uint32 {
	weights := make([]uint32, len(backends))
	for i, backend := range backends {
		weights[i] = backend.Weight
	}
	if len(backends) == 0 || backends[0].Weight == 0 {
		return weights
	}
	for i, backend := range backends[1:] {
		if len(services[backend.ServicePort()].Ready) == 0 {
			weights[0] += backend.Weight
			weights[i+1] = 0
		}
	}
	return weights
}
