// Package helm runs the chart charts/kedify-http with helm on a cluster, by the commands of docs/how-to/install.md and
// of the chart's README. It measures canaries with what the chart installed, upgrades and rolls back under load, takes
// over what kubectl applied, restores a backup, and uninstalls.
package helm
