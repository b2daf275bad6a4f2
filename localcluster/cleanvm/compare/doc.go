// Package compare finds what was added to a machine between two snapshots: files, mounts, links, firewall rules,
// cgroups, kernel settings, processes, units and listeners. A script takes a snapshot; this package compares the output
// of two runs.
package compare
