// Package kube is how a small program talks to the API server: it finds it, asks it without client-go's types and
// limits, lives with its troubles (what passes is tried again within a call, what does not is told with its remedy),
// and keeps what a watch tells and, ahead of it, the answers to its own reads and writes. So a call that changes
// nothing costs no request.
package kube
