// Package demandclient asks all replicas of the interceptor for the demand for HTTPScaledObjects. It
// keeps one connection to each, over which reports come, and answers from memory.
//
// A report counts for as long as its replica goes on to send: what is old or missing makes the demand of the
// objects that it is needed for unknown, see demand.Merge.
package demandclient
