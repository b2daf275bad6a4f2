// Package ingest watches the Kubernetes objects that routing depends on and turns every change into the configuration
// that the proxies serve.
//
// Each kind is listed and watched into its own store and reduced to the fields that are read. One loop owns
// everything behind the stores. A pass takes the changes from the stores, resolves them to changes of the model,
// translates these to Envoy resources and publishes them. The cost of a pass depends on the size of the change, not
// on the number of objects. After an error, which is a bug, the loop publishes as much of the full configuration as
// possible and rebuilds everything in the next pass. Nothing is published before the first list of every kind has
// completed, so that a restart never removes configuration ("seed, then serve").
//
// Changes are batched. The first change is processed immediately. The pause before the next pass grows with the
// duration of the passes, up to the interval. The outcome of each pass, including problems, goes to the Observers. It
// includes the replicas of the interceptor, on which routing does not depend and for which the first publication does
// not wait.
//
// Each fleet has its own translation and publication. A change costs, and a failure affects, only that fleet. A fleet
// exists as long as it has objects or proxies.
package ingest
