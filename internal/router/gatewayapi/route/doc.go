// Package route is the core of the traffic router argoproj-labs/gatewayAPI: it computes the desired content of a
// Gateway API route from the live route and a Rollout's request. It is pure: no client, context, clock or logger.
//
// A route is decoded JSON (map[string]any with int64 and float64 numbers, like k8s.io/apimachinery's unstructured
// objects), so that unknown fields are preserved. It is never modified: Apply returns a copy. Errors name the field
// (spec.rules[2].backendRefs) and the fix; the caller adds the object.
//
// A Rollout owns the following parts of a route:
//
//   - the weights of its stable and its canary Service, in every rule that has both as backends;
//   - the backends that an experiment adds to such rules;
//   - the sessions that it adds to such rules while requests are split;
//   - its managed rules: copies of such rules for a header or a mirror route, after the user's rules if the position
//     makes no difference, otherwise before them;
//   - the in-progress label, and its entry in the annotation of Annotation, which exists only while the Rollout is
//     active on the route.
//
// Everything else belongs to the user or to another Rollout and is not changed.
package route
