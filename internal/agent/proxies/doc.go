// Package proxies plans the proxies of a namespace: the objects of config/kedify-proxy with the settings of the
// agent and the namespace. They are installed while an HTTPScaledObject needs them, and removed after the last
// one.
//
// The package is pure. An object of the same name without the agent's label belongs to another owner and is neither
// changed nor deleted. No object has a finalizer: an annotation of the Deployment records since when no
// HTTPScaledObject needs the proxies.
package proxies
