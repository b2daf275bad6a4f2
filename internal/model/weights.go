package model

// EffectiveWeights returns the weights that the proxies are to use for backends, in the same order, given what can answer now:
//
//   - Backends with ready endpoints, and the stable one always, keep their desired weight.
//   - A canary or experiment with weight but without a ready endpoint gives its share to the stable backend, the first one.
//   - The stable share never goes to a canary: nobody asked for more requests there.
//   - Weight 0 gets nothing, ever. So when the stable backend has weight 0, there is nobody to give to, and every share stays where it is.
//
// The sum of the weights stays the same. The split that users asked for is in force exactly when the outcome equals the desired weights.
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
