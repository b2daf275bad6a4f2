// Package status reports on HTTPScaledObjects: conditions and a data-plane report in the status subresource, and an
// Event when a condition changes between valid and invalid.
//
//	ingest ── Pass ─────▶ ┐                                              other replicas
//	                      ├─ follow ── AckTracker ── Delta ──▶ State ──▶ (package peers)
//	xds ───── Changed ──▶ ┘     └────── keys of objects ──┐      │             │ States
//	                                                      ▼      ▼             ▼
//	                              workqueue ── workers: CountAcks ── Compute ── ApplyStatus
//
// A [Reporter] queues each pass and works in its own goroutines, so publishing a weight never waits for a report. An
// [AckTracker] compares the publications with the ACKs of this replica's proxies and returns the changes. [CountAcks]
// counts the Ready proxies of all replicas that have acknowledged an object, and [Compute] returns the status that the
// object should have. These three are pure.
//
// One replica writes, elected by package election. The others serve the ACKs of their proxies to it, and take over when
// its Lease expires or is released. The leader works through a queue of objects and writes only statuses that differ,
// so an idle system writes nothing. Objects in a canary come first. The proxies are served independently of all this.
//
// The status is written by server-side apply under FieldManager. The interceptor owns only its own fields, and other
// writers can add conditions.
package status
