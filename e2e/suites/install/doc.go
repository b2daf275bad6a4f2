// Package install installs a snapshot of a release the way docs/how-to/install.md says: it runs the page's own
// commands, from a server in the cluster in place of the project's releases, and takes everything away
// again.
package install
