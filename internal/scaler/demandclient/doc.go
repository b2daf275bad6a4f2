// Package demandclient reads the demand for HTTPScaledObjects from all replicas of the interceptor. It keeps one
// connection to each, receives a stream of reports, and answers from memory.
//
// A report is valid while its replica keeps sending. An outdated or missing report makes the demand of its objects
// unknown, see metrics.Merge.
package demandclient
