// Package envoysettings parses the ConfigMaps with which operators and users replace the proxy's default settings of
// Envoy. It is pure.
//
// The keys of a ConfigMap are "route" and "cluster", or those of Kedify's agent with the same contents. Their values
// are YAML with the field names of Envoy's config.route.v3.RouteAction and config.cluster.v3.Cluster. Only the
// Supported settings are accepted, each within bounds that overload no proxy and that every proxy accepts.
package envoysettings
