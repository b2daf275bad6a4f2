// Package certificate keeps the certificate by which the API server trusts the agent's webhook: it
// is made, stored in a Secret that all replicas share, told to the MutatingWebhookConfiguration,
// and renewed in time.
//
// The keys and certificates are made and checked by open-policy-agent/cert-controller. Its rotator
// as a whole would need to list all Secrets of the namespace, and a mounted volume, which a kubelet
// fills a minute late.
package certificate
