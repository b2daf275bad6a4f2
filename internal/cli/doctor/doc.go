// Package doctor finds out what is wrong with an installation: facts in, findings out. It gets values and returns
// values: no client, context, clock or logger.
//
// Each finding names the object and the field that is wrong, and what to do. A state that every canary passes through,
// such as a proxy that has not acknowledged a weight yet, is no finding: a sound installation has none at any moment.
package doctor
