package ingest

import (
	"context"
	"fmt"
	"sync"

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

// secretWatches lists and watches each Secret that an object names, and no other Secret. Permission for named Secrets
// is therefore sufficient, and memory contains no key that no proxy needs.
type secretWatches struct {
	// listWatch returns the list and watch of one Secret; nil disables TLS.
	listWatch func(model.Key) cache.ListerWatcherWithContext
	// newSource returns a source that fills a store. wake triggers a pass and never blocks.
	newSource func(model.Key, *store[*certificates.Secret]) *source
	wake      func()

	mu      sync.Mutex
	running map[model.Key]*secretWatch
	changed map[model.Key]struct{} // since the last take
}

// secretWatch is the watch of one Secret.
type secretWatch struct {
	key    model.Key
	store  *store[*certificates.Secret]
	source *source
	stop   context.CancelFunc
}

// setWatched starts and stops watches until exactly the wanted Secrets are watched. All watches end with ctx.
func (w *secretWatches) setWatched(ctx context.Context, wanted map[model.Key]struct{}, start func(func())) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, watch := range w.running {
		if _, isWanted := wanted[key]; !isWanted {
			watch.stop()
			delete(w.running, key)
			w.changed[key] = struct{}{}
			w.wake()
		}
	}
	for key := range wanted {
		if w.running[key] != nil {
			continue
		}
		watch := &secretWatch{key: key, stop: func() {}}
		w.running[key] = watch
		if w.listWatch == nil {
			w.changed[key] = struct{}{}
			w.wake()
			continue
		}
		watch.store = newStore(certificates.Parse, (*certificates.Secret).Equal, func() { w.markChanged(key) })
		watch.source = w.newSource(key, watch.store)
		watch.source.notify = func() { w.markChanged(key) }
		watchCtx, cancel := context.WithCancel(ctx)
		watch.stop = cancel
		start(func() { watch.source.run(watchCtx) })
	}
}

// markChanged records that a Secret may have changed.
func (w *secretWatches) markChanged(key model.Key) {
	w.mu.Lock()
	w.changed[key] = struct{}{}
	w.mu.Unlock()
	w.wake()
}

// take returns the Secrets that may have changed since the previous call. The value is nil if the Secret has not been
// read yet or is no longer watched.
func (w *secretWatches) take() map[model.Key]*certificates.Secret {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.changed) == 0 {
		return nil
	}
	changes := make(map[model.Key]*certificates.Secret, len(w.changed))
	for key := range w.changed {
		changes[key] = w.running[key].current()
	}
	w.changed = map[model.Key]struct{}{}
	return changes
}

// pending returns a message for each Secret that was neither read nor denied yet.
func (w *secretWatches) pending() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var missing []string
	for key, watch := range w.running {
		if watch.source != nil && watch.current() == nil {
			missing = append(missing, "the first list of Secret "+key.String())
		}
	}
	return missing
}

// current returns the current state of the Secret, nil if it is unknown. A Secret that was listed once stays valid
// while the API server is unavailable.
func (w *secretWatch) current() *certificates.Secret {
	switch {
	case w == nil:
		return nil
	case w.source == nil:
		return &certificates.Secret{Unreadable: reasonTLSDisabled}
	}
	err, isListed := w.source.lastError(), w.store.isListed()
	switch {
	case err != nil && (!isListed || apierrors.IsForbidden(err)):
		return &certificates.Secret{Unreadable: err.Error()}
	case !isListed:
		return nil
	}
	if secret, exists := w.store.get(w.key); exists {
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
	l.secrets = &secretWatches{
		listWatch: listWatch, wake: l.wake, running: map[model.Key]*secretWatch{}, changed: map[model.Key]struct{}{},
		newSource: func(key model.Key, secrets *store[*certificates.Secret]) *source {
			return &source{
				resource: "Secret " + key.String(), listWatch: listWatch(key), object: &corev1.Secret{},
				store: secrets, isListed: secrets.isListed,
				logger: l.logger, countFailure: l.metrics.watchErrors.WithLabelValues("secrets").Inc, fix: secretFix(key),
				isOptional: true,
			}
		},
	}
}

// referencedSecrets returns the Secrets that the objects in the stores name.
func (l *Loop) referencedSecrets() map[model.Key]struct{} {
	referenced := map[model.Key]struct{}{}
	for _, object := range merge(l.scaledObjects) {
		if key, ok := certificates.SecretOf(object); ok {
			referenced[key] = struct{}{}
		}
	}
	return referenced
}
