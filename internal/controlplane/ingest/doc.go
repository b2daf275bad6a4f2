// Package ingest keeps a copy of the Kubernetes objects that routing depends on and turns every change of it into what the proxies are to serve.
//
// Each kind is listed and watched into a store of its own, reduced to the fields that are read. One loop owns everything behind the stores: it takes what
// has changed in them, resolves it to what is new in the model, translates that to Envoy's resources and publishes it. So a change costs what has changed,
// whatever else is there. After an error, which is a bug, as much as possible of the whole is published, and the next pass begins anew. Nothing is published
// before every kind was listed once, so that a restart never publishes less than is there ("seed, then serve").
//
// Changes are batched: the first one is handled at once, and those that follow after a pause, which is the longer the more there was to do and at most the
// interval. What the loop found,
// problems included, goes to a list of Observers, together with a kind that routing does not depend on and never waits for: the replicas of the interceptor.
//
// Each fleet has a translation and a publication of its own, so that a change costs, and a failure concerns, that fleet alone. A fleet is there as long as it
// has objects or proxies.
package ingest
