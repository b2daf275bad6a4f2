// Package install applies the objects of packages manifests and registration to a cluster and deletes them again: it
// creates, updates and deletes objects, restarts the Argo Rollouts controller, and waits for the results.
//
// Every write is idempotent: after an interruption, a new call continues.
package install
