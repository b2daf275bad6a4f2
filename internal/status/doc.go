// Package status tells the owners of HTTPScaledObjects what became of them: conditions in the status subresource, and an Event when something went wrong or
// right again.
//
// What a status should be is a pure function, Compute. The Writer applies it to the objects whose status differs, and to no others: an idle system writes
// nothing. Of several replicas one writes, chosen by an Election; the others keep what they know ready and take over when its Lease runs out. Serving the
// proxies does not depend on any of this.
//
// The status is written by server-side apply under FieldManager, so it owns its own fields only, and other writers may add conditions of their own.
package status
