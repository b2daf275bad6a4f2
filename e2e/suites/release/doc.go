// Package release tests what `make snapshot` has made: that the same commit gives the same bytes
// somewhere else, and that the binaries for another processor do what the controller asks first.
package release
