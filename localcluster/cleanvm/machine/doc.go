// Package machine runs a virtual machine in QEMU for the duration of a run. It starts the machine, with KVM if
// possible, waits for it, and logs in by ssh, with or without a terminal.
package machine
