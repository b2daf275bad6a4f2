// Package compare finds what a machine has that it didn't have before: files,
// mounts, links, firewall rules, cgroups, kernel settings, processes, units and
// listeners. A script looks at the machine; what it printed is compared here.
package compare
