// Package autowire decides which backends of the Ingresses and HTTPRoutes of a namespace name Service kedify-proxy in
// place of the Service that their requests are for, and what each object becomes by that.
//
// It is pure. What is to be is computed anew each time, from the original: the object as it stands with what
// was wired undone. How to undo it stands on the object itself, in the annotation
// http.kedify.io/autowire-undo, as a JSON patch that kubectl can carry out without the agent. An object is
// changed by one write, which carries both: there is no moment in which one of them is missing.
//
// All this is the same for every kind of objects. A function for each kind, OfIngress and OfHTTPRoute, says where in
// an object a Service is named, for which requests, and by what the place is known again.
package autowire
