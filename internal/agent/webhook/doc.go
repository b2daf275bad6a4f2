// Package webhook is the agent's mutating admission webhook. It makes an unmodified KEDA accept ScaledObjects with
// triggers of type kedify-http: see desired.Convert.
//
// It changes only those triggers, uses only the request, and has no side effects. A second call changes nothing.
// Validation errors in the metadata are returned as warnings, which kubectl prints; they do not reject the
// request.
package webhook
