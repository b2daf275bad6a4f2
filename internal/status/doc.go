// Package status tells the owners of HTTPScaledObjects what became of them: conditions and a data-plane report in the status subresource, and an Event when
// something went wrong or right again.
//
// What a status should be is a pure function, Compute. What it says of the proxies comes in three steps, pure too: PartOf says what a publication has of an
// object, a Ledger compares it with what the proxies of this replica confirmed, and Merge counts, for every object, the Ready proxies of all replicas that have it.
//
// A Reporting carries that out. It applies statuses to the objects that differ, and to no others: an idle system writes nothing. Of several replicas one
// writes, chosen by an Election, and asks the others what their proxies have taken (AcksPath); the others keep what they know ready and take over when its
// Lease runs out. Serving the proxies does not depend on any of this.
//
// The status is written by server-side apply under FieldManager, so it owns its own fields only, and other writers may add conditions of their own.
package status
