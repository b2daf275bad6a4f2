// Package bundle writes a support bundle: an archive with the objects, logs and metrics of an installation. It reads no
// Secret, and removes values that look like credentials from everything else.
package bundle
