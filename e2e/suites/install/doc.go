// Package install installs a snapshot of a release according to docs/how-to/install.md. It runs the page's commands
// with a server in the cluster instead of the project's releases, and uninstalls everything again.
package install
