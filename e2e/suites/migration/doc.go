// Package migration runs the commands of docs/how-to/migrate.md with the KEDA HTTP add-on on a cluster: an application
// moves from the add-on to this project and back, under load.
package migration
