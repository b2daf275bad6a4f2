// Package envoysettings reads the ConfigMaps by which operators and users have settings of Envoy in the place of the
// proxy's defaults. It is pure.
//
// The ConfigMaps' keys are "route" and "cluster", their values YAML with the names that Envoy's API gives the fields of
// config.route.v3.RouteAction and config.cluster.v3.Cluster. Only those of Known are taken, each within bounds with which no
// proxy is overwhelmed and none refuses its configuration.
package envoysettings
