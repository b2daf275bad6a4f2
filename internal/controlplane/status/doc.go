// Package status tells the owners of HTTPScaledObjects what became of them: conditions and a data-plane
// report in the status subresource, and an Event when something went wrong or right again.
//
//	ingest ── Report ──▶ ┐                                              other replicas
//	                     ├─ follow ── AckTracker ── Delta ──▶ State ──▶ (package replicas)
//	xds ──── Changed ──▶ ┘     └────── keys of objects ──┐      │             │ States
//	                                                     ▼      ▼             ▼
//	                              workqueue ── workers: TakenOf ── Compute ── ApplyStatus
//
// A Report is queued, and all else goes on in goroutines of this package: who publishes weights waits
// for nothing here. An [AckTracker] compares what is published of an object with what the proxies of
// this replica have confirmed, and says what is new of that. [TakenOf] counts the Ready proxies of all
// replicas that have the object, and [Compute] is the status that it should have. These are pure.
//
// Of several replicas one writes, chosen by an [election.Elector]. The others keep what they know ready, tell
// it, and take over when the Lease runs out. The elected one works through a queue of objects: it
// writes the statuses that differ, and no others, so an idle system writes nothing. Objects in a canary
// come first. Serving the proxies does not depend on any of this.
//
// The status is written by server-side apply under FieldManager, so it owns its own fields only, and
// other writers may add conditions of their own.
package status
