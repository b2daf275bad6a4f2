// Package node is the inside of the embedded cluster: the first process of its own PID, mount and network namespaces,
// the setup of those namespaces, and the supervision of the components that package cluster describes.
//
// Everything runs below one PID namespace. When the first process of that namespace dies for any reason, the kernel
// kills all others, including pods. Mounts and network devices go with their namespaces. Therefore nothing is left
// behind, and there is no list of steps to revert.
package node
