// Package release tests the output of `make snapshot`. The same commit must give the same bytes in another folder. The
// binaries for another architecture must answer the controller's first calls.
package release
