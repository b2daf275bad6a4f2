// Package dashboard connects to the live page of the interceptor through a port-forward, and connects again when the Pod
// ends. It uses the JSON API of the page.
package dashboard
