// Package doctor checks an installation for problems: it turns facts into findings. It is pure: it has no client,
// context, clock or logger.
//
// Each finding has the object, the field, the problem and the fix. A state that is normal during a canary, e.g. a proxy
// that has not acknowledged a weight yet, is not a finding: a healthy installation has none at any time.
package doctor
