// Package load is an open-loop HTTP client: requests start by a schedule that
// doesn't wait for answers, so a server that stalls meets the load that real
// users would bring, and the wait that they would feel is measured from the
// moment a request was due. Where only failures matter, and not how busy the
// machine is, the loop can be a closed one.
//
// Nothing is ever sent twice. That is why the connections are driven by hand:
// net/http's Transport repeats an idempotent request when a reused connection
// turns out to be closed, and so hides just the faults that this client is for.
// A kept connection that the server cuts is a failed request here.
package load
