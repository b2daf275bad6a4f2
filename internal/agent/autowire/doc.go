// Package autowire plans which backends of the Ingresses, HTTPRoutes, VirtualServices and Routes of one namespace
// reference Service kedify-proxy instead of their original Service.
//
// The package is pure. Each plan is computed from the originals: the objects with every rewritten backend
// restored. The restore record is on the object itself, in annotation http.kedify.io/autowire-undo. It is a JSON
// patch that kubectl can apply without the agent. One write changes both the backends and the annotation, so they
// never disagree.
//
// The plan also contains the settings that HTTPScaledObjects take over from their backends, because the proxies connect
// to the application instead of the Ingress controller or Gateway. They are in annotation
// http.kedify.io/autowire-settings, and a backend waits until every proxy has them.
//
// A Service that clients call directly is taken over as a whole: it selects the proxies instead of the application, and
// a copy of it, the fallback Service, selects the application for the proxies. See FromService.
//
// The plan is the same for every kind of object. FromIngress, FromHTTPRoute, FromVirtualService and FromRoute extract an
// object's backends: the pointer to the Service reference, the requests that it receives, and the fields that identify it.
package autowire
