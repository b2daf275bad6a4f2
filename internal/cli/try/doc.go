// Package try plays a throw-away canary on a cluster: a namespace of its own with a sample application, load from inside of it, one step whose share of the
// requests is measured, and the end. Whatever happens, the namespace is removed, and nothing else is ever changed.
package try
