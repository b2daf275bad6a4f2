package kube

import "os"

// streamVariable is the environment variable of client-go's feature gate WatchListClient.
const streamVariable = "KUBE_FEATURE_WatchListClient"

// StreamLists makes reflectors of client-go receive lists as a stream of objects, which they trim one by one
// (WatchList, KEP-3157). Otherwise a list is in memory as a whole, with all that is trimmed, and any tenant can make it
// large. Without the feature gate WatchList of the API server, reflectors list as before. A value of the environment
// variable takes precedence. Call StreamLists before the first reflector starts.
func StreamLists() error {
	if _, isSet := os.LookupEnv(streamVariable); isSet {
		return nil
	}
	return os.Setenv(streamVariable, "true")
}
