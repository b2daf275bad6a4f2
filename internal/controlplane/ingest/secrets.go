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

// withoutTLS is why no Secret is read.
const withoutTLS = "the interceptor was started with --tls=false, so proxies take no TLS; start it without that"

// secretWatches list and watch the Secrets that objects name, each by itself, and no other. Who may read a Secret by its name is
// allowed no more by this, and nobody's key is here that no proxy is to have.
type secretWatches struct {
	// listWatch returns the list and watch of one Secret; nil stands for no TLS.
	listWatch func(model.Key) cache.ListerWatcherWithContext
	// begin makes a source that fills a store, and wake has the loop look; it never blocks.
	begin func(model.Key, *store[*certificates.Secret]) *source
	wake  func()

	mu      sync.Mutex
	running map[model.Key]*secretWatch
	news    map[model.Key]struct{} // of which something may be new since the last take
}

// secretWatch is one of them.
type secretWatch struct {
	key    model.Key
	store  *store[*certificates.Secret]
	source *source
	stop   context.CancelFunc
}

// want has exactly these Secrets watched. What runs ends with ctx.
func (w *secretWatches) want(ctx context.Context, wanted map[model.Key]struct{}, start func(func())) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, is := range w.running {
		if _, still := wanted[key]; !still {
			is.stop()
			delete(w.running, key)
			w.news[key] = struct{}{}
			w.wake()
		}
	}
	for key := range wanted {
		if w.running[key] != nil {
			continue
		}
		is := &secretWatch{key: key, stop: func() {}}
		w.running[key] = is
		if w.listWatch == nil {
			w.news[key] = struct{}{}
			w.wake()
			continue
		}
		is.store = newStore(certificates.Read, (*certificates.Secret).Equal, func() { w.note(key) })
		is.source = w.begin(key, is.store)
		is.source.troubled = func() { w.note(key) }
		own, cancel := context.WithCancel(ctx)
		is.stop = cancel
		start(func() { is.source.run(own) })
	}
}

// note says that something may be new of a Secret.
func (w *secretWatches) note(key model.Key) {
	w.mu.Lock()
	w.news[key] = struct{}{}
	w.mu.Unlock()
	w.wake()
}

// take returns the Secrets of which something may be new since it was last called, nil for one of which nothing is known.
func (w *secretWatches) take() map[model.Key]*certificates.Secret {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.news) == 0 {
		return nil
	}
	taken := make(map[model.Key]*certificates.Secret, len(w.news))
	for key := range w.news {
		taken[key] = w.running[key].now()
	}
	w.news = map[model.Key]struct{}{}
	return taken
}

// waiting says which Secrets were neither read nor refused yet.
func (w *secretWatches) waiting() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var missing []string
	for key, is := range w.running {
		if is.source != nil && is.now() == nil {
			missing = append(missing, "the first list of Secret "+key.String())
		}
	}
	return missing
}

// now is what is known of the Secret, nil for nothing. What was listed once goes on to count while the API server is away.
func (w *secretWatch) now() *certificates.Secret {
	switch {
	case w == nil:
		return nil
	case w.source == nil:
		return &certificates.Secret{Unreadable: withoutTLS}
	}
	trouble, isListed := w.source.lastTrouble(), w.store.isListed()
	switch {
	case trouble != nil && (!isListed || apierrors.IsForbidden(trouble)):
		return &certificates.Secret{Unreadable: trouble.Error()}
	case !isListed:
		return nil
	}
	if found, isThere := w.store.find(w.key); isThere {
		return found
	}
	return &certificates.Secret{}
}

// secretRemedy is what to do where the interceptor may not read a Secret.
func secretRemedy(key model.Key) string {
	return fmt.Sprintf("allow it by `kubectl create rolebinding kedify-http-interceptor-tls --namespace=%s --clusterrole=kedify-http-interceptor-tls "+
		"--serviceaccount=%s:kedify-http-interceptor`, with the namespace and name of the interceptor's ServiceAccount", key.Namespace,
		httpv1alpha1.DefaultInterceptorNamespace)
}

// watchSecrets makes what watches Secrets.
func (l *Loop) watchSecrets(listWatch func(model.Key) cache.ListerWatcherWithContext) {
	l.secrets = &secretWatches{
		listWatch: listWatch, wake: l.wake, running: map[model.Key]*secretWatch{}, news: map[model.Key]struct{}{},
		begin: func(key model.Key, objects *store[*certificates.Secret]) *source {
			return &source{
				resource: "Secret " + key.String(), lists: listWatch(key), object: &corev1.Secret{}, store: objects, isListed: objects.isListed,
				logger: l.logger, failed: l.metrics.watchErrors.WithLabelValues("secrets").Inc, remedy: secretRemedy(key), isOptional: true,
			}
		},
	}
}

// namedSecrets are the Secrets that the objects in the stores name.
func (l *Loop) namedSecrets() map[model.Key]struct{} {
	named := map[model.Key]struct{}{}
	for _, object := range merge(l.scaledObjects) {
		if key, names := certificates.SecretOf(object); names {
			named[key] = struct{}{}
		}
	}
	return named
}
