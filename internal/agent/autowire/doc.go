// Package autowire decides which backends of the Ingresses of a namespace name Service kedify-proxy in place of
// the Service that their requests are for, and what each Ingress becomes by that.
//
// It is pure. What is to be is computed anew each time, from the original: the Ingress as it stands with what
// was wired undone. How to undo it stands on the Ingress itself, in the annotation
// http.kedify.io/autowire-undo, as a JSON patch that kubectl can carry out without the agent. An Ingress is
// changed by one write, which carries both: there is no moment in which one of them is missing.
package autowire
