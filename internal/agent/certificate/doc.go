// Package certificate manages two certificates. It creates a certificate and its CA, stores them in a Secret that all
// replicas share, and renews the certificate in time.
//
//   - A [Rotator] manages that of the agent's webhook, and sets the CA bundle of the MutatingWebhookConfiguration.
//   - An [Issuer] manages that of the interceptor, which proxies verify. Proxies receive a new CA through a ConfigMap
//     and a mounted volume, minutes late, so a new CA is published a day before a certificate of it is served.
//
// open-policy-agent/cert-controller creates and validates the keys and certificates. Its complete rotator is not
// used: it requires permission to list all Secrets of the namespace, and a mounted volume, which a kubelet updates
// up to a minute late.
package certificate
