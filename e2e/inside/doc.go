// Package inside reaches into a running embedded cluster where no user could:
// it finds the cluster's processes and ends or stops them, connects to addresses
// of its network, and reads every version of an object from its store.
//
// All of that goes by the first process of the cluster's PID namespace, the
// child of the supervisor that holds the run directory's lock. Only processes
// below it are ever seen, so neither another cluster nor anything else on the
// machine can be hit.
package inside
