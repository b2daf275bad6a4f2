// Package load is an open-loop HTTP load generator. Requests start by a schedule, independently of the responses. A
// server that stalls therefore gets the load that real users generate, and the latency counts from when a request was
// due. If only failures matter, and not how busy the machine is, the loop can be closed.
//
// Nothing is sent twice, so the package manages the connections itself. The Transport of net/http repeats an idempotent
// request if a reused connection turns out to be closed. It thereby hides exactly the faults that this client detects.
// A kept connection that the server closes during a request is a failed request here.
package load
