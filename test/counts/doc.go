// Package counts tests how many requests each call costs the API server: the built plugins, over go-plugin, against a
// real API server, whose audit log has every request of the plugin's ServiceAccount. The numbers are exact. What
// changes something writes each object once; what changes nothing asks nothing, as long as a watch shows what is there.
package counts
