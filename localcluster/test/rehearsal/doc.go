// Package rehearsal tests a release of a tagged clone, up to its publication: `make test-rehearsal`.
package rehearsal
