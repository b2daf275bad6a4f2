// Package inside accesses the inside of a running embedded cluster. It finds, kills and pauses the cluster's processes,
// connects to addresses of its network, and reads every version of an object from its store.
//
// The access is based on the first process of the cluster's PID namespace. That process is the child of the supervisor,
// which holds the lock of the run directory. The package sees only its descendants, so it cannot affect another cluster
// or other processes of the machine.
package inside
