// Package route is the core of the traffic router argoproj-labs/gatewayAPI: given a Gateway API route and what a Rollout asks for, it works out the route as
// it should be. It gets values and returns values: no client, context, clock or logger.
//
// A route comes as decoded JSON (map[string]any with int64 and float64 numbers, as k8s.io/apimachinery's unstructured objects have it), so that fields that
// nobody here has heard of survive. It is never modified: Apply returns a copy. Messages name the field (spec.rules[2].backendRefs) and the remedy; the
// caller adds the object.
//
// What of a route belongs to a Rollout:
//
//   - the weights of its stable and its canary Service, in every rule that has both as backends;
//   - the backends that an experiment adds beside them;
//   - its managed rules: copies of such rules for a header or a mirror route, behind the user's rules where their place makes no difference, else in front;
//   - the in-progress label, and its entry in the annotation of Annotation, which is there only while the Rollout is active on the route.
//
// Everything else is the user's, or another Rollout's, and stays as it is.
package route
