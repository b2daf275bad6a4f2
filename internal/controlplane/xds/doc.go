// Package xds serves Envoy proxies their configuration: an aggregated discovery service (ADS) in both of its modes,
// delta (incremental) and state of the world.
//
// The caller publishes the desired resources of a fleet with [Server.Publish], and changes to them with
// [Server.ApplyDelta]. The state machine in package session decides what each connected proxy is sent, and when. This
// package is the gRPC service around it: one goroutine per stream steps the session and sends its responses.
//
// Resources are published to one fleet of proxies. A stream belongs to the fleet of its peer's address, which the
// caller sets with [Server.SetMembers]. A stream with an unknown address waits for [Options.MembershipTimeout] and
// is rejected then. A proxy receives only resources of its fleet, and its rejections affect only its fleet.
//
// For every stream and resource the server stores what was sent, ACKed and NACKed, and what is withheld: see
// [Server.Poll]. [Callbacks] report at once which clusters a proxy can serve.
package xds
