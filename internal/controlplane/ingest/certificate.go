package ingest

import (
	"bytes"
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// certificateFix is the instruction for granting access to the Secret with the interceptor's certificate.
const certificateFix = "apply config/interceptor, or turn TLS off by an empty --interceptor-tls-secret"

// ownCertificate is the interceptor's own certificate.
type ownCertificate struct {
	secrets *store[map[string][]byte] // nil if it is disabled
	set     func(data map[string][]byte) (ca string, err error)
	// isLoaded is true after the first valid certificate. isReported is true if the lack of one was logged.
	isLoaded, isReported bool
}

// reduceCertificate returns the used part of the Secret.
func reduceCertificate(secret *corev1.Secret) map[string][]byte {
	data := map[string][]byte{}
	for _, key := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey, corev1.ServiceAccountRootCAKey} {
		data[key] = secret.Data[key]
	}
	return data
}

// isSameCertificate reports whether two Secrets have the same certificate and CAs.
func isSameCertificate(before, after map[string][]byte) bool {
	return maps.EqualFunc(before, after, bytes.Equal)
}

// watchCertificate creates the store and source of the interceptor's certificate.
func (l *Loop) watchCertificate(listWatch cache.ListerWatcherWithContext) {
	if listWatch == nil {
		return
	}
	l.own.secrets = newStore(reduceCertificate, isSameCertificate, l.wake)
	watchInto(l, gatePublication, "the Secret with the interceptor's certificate", listWatch, &corev1.Secret{},
		l.own.secrets)
	added := l.sources[len(l.sources)-1]
	added.fix, added.isOptional, added.notify = certificateFix, true, l.wake
}

// takeCertificate sets a changed certificate. If the proxies must trust other CAs, the pass rebuilds all fleets. The
// last valid certificate stays in use if the Secret is deleted or invalid.
func (l *Loop) takeCertificate(ctx context.Context) {
	if l.own.secrets == nil {
		return
	}
	for key, change := range l.own.secrets.take() {
		if !change.affectsRouting {
			continue // the same certificate, in a Secret with other labels or annotations
		}
		if !change.exists {
			l.logger.WarnContext(ctx, "the Secret with the interceptor's certificate was deleted, keeping the certificate",
				"secret", key)
			continue
		}
		ca, err := l.own.set(change.object)
		if err != nil {
			l.logger.ErrorContext(ctx, "invalid certificate of the interceptor, keeping the previous one", "secret", key,
				"error", err)
			continue
		}
		l.logger.InfoContext(ctx, "certificate of the interceptor loaded", "secret", key)
		l.own.isLoaded = true
		if l.translate.Hold.CA != ca {
			l.translate.Hold.CA = ca
			l.reset()
		}
	}
	if !l.own.isLoaded && !l.own.isReported {
		l.own.isReported = true
		l.logger.WarnContext(ctx,
			"the interceptor has no certificate yet: until its Secret has one, proxies with TLS and the scaler are rejected, "+
				"and proxies without TLS receive no private keys: run the agent, create the Secret with cert-manager, or turn "+
				"TLS off by an empty --interceptor-tls-secret")
	}
}
