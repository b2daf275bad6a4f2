// Package webhook is the agent's mutating admission webhook: it lets a stock KEDA take
// ScaledObjects with triggers of type kedify-http, see plan.Convert.
//
// It changes those triggers and nothing else, needs nothing but the request, and has no side
// effects; a second call finds nothing to do. Mistakes in the metadata come back as warnings, which
// kubectl shows; they are refused by nobody.
package webhook
