// Package try runs a throwaway canary on a cluster: a namespace with a sample application, load from inside the
// cluster, one step whose traffic split is measured, and the end of the canary. It always deletes the namespace, and
// never changes any other object.
package try
