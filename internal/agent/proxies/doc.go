// Package proxies decides what proxies a namespace has: the objects of config/kedify-proxy with the settings of the
// agent and of the namespace, installed while an HTTPScaledObject needs them and removed after the last one.
//
// It is pure. What is there by the same name without the agent's label is somebody else's, and is neither changed
// nor deleted. Nothing has a finalizer: since when proxies are needed no more stands on their Deployment.
package proxies
