// Package dashboard follows a canary of the guide on the interceptor's live page: in Chromium, at the address that
// `kubectl http-canary dashboard` prints.
package dashboard
