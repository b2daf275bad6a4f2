// Package image makes the disks of a stranger's machine: a Debian with systemd,
// docker.io and a user with sudo, built from Debian's packages, and a disk with
// that user's home and what the host has in its caches. Nothing is mounted on
// the host and nothing is downloaded but Debian's packages.
package image
