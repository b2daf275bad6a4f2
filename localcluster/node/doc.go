// Package node is the inside of the embedded cluster: the first process of its
// own PID, mount and network namespaces, the preparation of those namespaces,
// and the supervision of the components that package cluster describes.
//
// Everything runs below one PID namespace. The kernel ends all of it, pods
// included, when the first process of that namespace dies, however it dies;
// the mounts and network devices go with their namespaces. That, and not a list
// of things to undo, is why nothing is left behind.
package node
