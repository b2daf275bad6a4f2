// Package faults kills each part of a running canary again and again, under the
// demo's load, and judges what requests and weights met: see docs/dev/faults.md.
package faults
