// Package desired decides what the agent does about one ScaledObject. It is pure: objects in, changes
// out.
//
// Desired says which HTTPScaledObjects the triggers of a ScaledObject stand for, Compare what is to
// be done about those that exist, and Convert how triggers of type kedify-http become ones that a
// stock KEDA understands.
package desired
