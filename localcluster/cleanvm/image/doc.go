// Package image builds the disks of a clean machine. One is a Debian with systemd, docker.io and a user with sudo,
// built from Debian's packages. The other contains that user's home and the host's caches. Nothing is mounted on the
// host, and only Debian's packages are downloaded.
package image
