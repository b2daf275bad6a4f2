// Package certificate manages the serving certificate of the agent's webhook. It creates the certificate and its
// CA, stores them in a Secret that all replicas share, sets the CA bundle of the MutatingWebhookConfiguration, and
// renews the certificate in time.
//
// open-policy-agent/cert-controller creates and validates the keys and certificates. Its complete rotator is not
// used: it requires permission to list all Secrets of the namespace, and a mounted volume, which a kubelet updates
// up to a minute late.
package certificate
