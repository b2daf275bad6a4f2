// Package server starts, supervises and stops the components of a server process.
//
// All components run in parallel; a component that depends on another one waits for it. A shutdown has two phases.
// After the signal the process reports that it isn't ready and continues to serve, so that load balancers can remove
// it. Then every component stops, within a deadline. The failure of one component ends the process with its error: a
// server that lost a listener must not look healthy.
package server
