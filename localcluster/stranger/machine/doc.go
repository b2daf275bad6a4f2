// Package machine runs a virtual machine in QEMU for as long as a run lasts: it
// starts it, by KVM where that works, awaits it, and reaches it by ssh, also on
// a terminal as a person would.
package machine
