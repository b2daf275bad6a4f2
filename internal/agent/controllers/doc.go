// Package controllers contains the agent's controllers:
//
//   - ScaledObjectReconciler creates the HTTPScaledObjects of ScaledObjects, as package desired computes them.
//   - AutowireReconciler points the backends of a namespace at its proxies, as package autowire plans.
//   - ProxyReconciler installs the proxies of a namespace, as package proxies plans.
//
// They write by server-side apply and by patches of single fields. Fields of other writers on the same objects,
// such as the weights of a canary, are never changed.
package controllers
