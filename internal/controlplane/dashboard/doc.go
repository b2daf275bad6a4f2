// Package dashboard serves the live page of the interceptor: an overview of all objects, and one canary in detail. The
// page is read-only. It and other programs use the same JSON API, which web/openapi.json describes.
//
//	ingest ── Observe ──▶ Hub ── one encoding for all ──▶ viewers: server-sent events, JSON
//	metric sinks of all replicas ── reports ──▶ │
//	API server ── Rollout, Events of the object that is shown ──▶ │
//
// Every replica serves the same content. The statuses of objects are those that the elected replica has written, and the
// demand is the sum of the reports of all replicas, as for the scaler. The page names replicas without a report.
//
// Without a viewer, the Hub only remembers the objects and the changes of their splits. With viewers, it collects
// changes for Interval and encodes each changed row once, at most MaxRows at a time. A viewer that is too slow for the
// changes is disconnected, connects again, and receives everything.
package dashboard
