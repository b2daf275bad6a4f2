package ingest

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/certificates"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// reasonTLSDisabled is the reason for not reading Secrets if TLS is disabled.
const reasonTLSDisabled = "the interceptor runs with --tls=false, so the proxies do not serve TLS: start it without " +
	"this flag"

// secretWatches are the watches of the Secrets that objects name.
type secretWatches struct {
	*namedWatches[*certificates.Secret]
}

// take returns the Secrets that may have changed since the previous call. The value is nil if the Secret has not been
// read yet or is no longer watched.
func (w secretWatches) take() map[model.Key]*certificates.Secret {
	changed := w.namedWatches.take()
	if len(changed) == 0 {
		return nil
	}
	secrets := make(map[model.Key]*certificates.Secret, len(changed))
	for key, watch := range changed {
		secrets[key] = currentSecret(key, watch)
	}
	return secrets
}

// pending returns a message for each Secret that was neither read nor denied yet.
func (w secretWatches) pending() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var missing []string
	for key, watch := range w.running {
		if watch.source != nil && currentSecret(key, watch) == nil {
			missing = append(missing, "the first list of Secret "+key.String())
		}
	}
	return missing
}

// currentSecret returns the current state of a Secret, nil if it is unknown or not watched. A Secret that was listed
// once stays valid while the API server is unavailable.
func currentSecret(key model.Key, watch *namedWatch[*certificates.Secret]) *certificates.Secret {
	switch {
	case watch == nil:
		return nil
	case watch.source == nil:
		return &certificates.Secret{Unreadable: reasonTLSDisabled}
	}
	err, isListed := watch.source.lastError(), watch.store.isListed()
	switch {
	case err != nil && (!isListed || apierrors.IsForbidden(err)):
		return &certificates.Secret{Unreadable: err.Error()}
	case !isListed:
		return nil
	}
	if secret, exists := watch.store.get(key); exists {
		return secret
	}
	return &certificates.Secret{}
}

// secretFix returns the instruction for granting access to a Secret.
func secretFix(key model.Key) string {
	return fmt.Sprintf("grant it with `kubectl create rolebinding kedify-http-interceptor-tls --namespace=%s "+
		"--clusterrole=kedify-http-interceptor-tls --serviceaccount=%s:kedify-http-interceptor`, "+
		"with the namespace and name of the interceptor's ServiceAccount",
		key.Namespace, httpv1alpha1.DefaultInterceptorNamespace)
}

// watchSecrets sets up the watches of Secrets.
func (l *Loop) watchSecrets(listWatch func(model.Key) cache.ListerWatcherWithContext) {
	watches := newNamedWatches[*certificates.Secret](listWatch, l.wake)
	watches.newStore = func(notify func()) *store[*certificates.Secret] {
		return newStore(certificates.Parse, (*certificates.Secret).Equal, notify)
	}
	watches.newSource = func(key model.Key, secrets *store[*certificates.Secret]) *source {
		return &source{
			resource: "Secret " + key.String(), listWatch: listWatch(key), object: &corev1.Secret{},
			store: secrets, isListed: secrets.isListed,
			logger: l.logger, countFailure: l.metrics.watchErrors.WithLabelValues("secrets").Inc, fix: secretFix(key),
			isOptional: true,
		}
	}
	l.secrets = secretWatches{watches}
}

// referencedSecrets returns the Secrets that the objects in the stores name.
func (l *Loop) referencedSecrets() map[model.Key]struct{} {
	referenced := map[model.Key]struct{}{}
	for _, object := range l.mergeObjects() {
		if key, ok := certificates.SecretOf(object); ok {
			referenced[key] = struct{}{}
		}
	}
	return referenced
}
