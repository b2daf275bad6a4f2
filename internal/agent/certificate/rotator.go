package certificate

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// checkInterval is how often a Secret and the MutatingWebhookConfiguration are checked. checkTimeout bounds
	// one check.
	checkInterval, checkTimeout = 10 * time.Second, 10 * time.Second
	// retryInterval is the delay after a failed check, for example because of another replica's write.
	retryInterval = time.Second
)

// ErrNotReady means that no certificate exists yet.
var ErrNotReady = errors.New("the webhook has no certificate yet")

// Rotator keeps one certificate valid. Set its fields before Run and do not change them afterwards.
type Rotator struct {
	// Client reads and writes without a cache.
	Client client.Client
	// Secret is the Secret with the certificate.
	Secret types.NamespacedName
	// Webhook is the name of the MutatingWebhookConfiguration. It may not exist.
	Webhook string
	// Names are the DNS names of the webhook, at least one.
	Names []string
	// Now is the clock.
	Now func() time.Time
	// Logger receives errors.
	Logger *slog.Logger

	serving atomic.Pointer[tls.Certificate]
}

// Certificate returns the current certificate. It implements tls.Config.GetCertificate. Before the first
// certificate it returns ErrNotReady.
func (r *Rotator) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if current := r.serving.Load(); current != nil {
		return current, nil
	}
	return nil, ErrNotReady
}

// Run keeps the certificate valid until ctx is canceled.
func (r *Rotator) Run(ctx context.Context) error {
	return runEvery(ctx, r.ensure, func(err error) {
		r.Logger.WarnContext(ctx, "update of the webhook's certificate failed", "error", err)
	})
}

// runEvery calls check every checkInterval until ctx is canceled, each time with checkTimeout. After an error it calls
// check again after retryInterval. It reports an error unless it is the same as before.
func runEvery(ctx context.Context, check func(context.Context) error, report func(error)) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	reported := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		err := withTimeout(ctx, check)
		switch {
		case err == nil:
			reported = ""
			timer.Reset(checkInterval)
			continue
		case ctx.Err() == nil && err.Error() != reported:
			reported = err.Error()
			report(err)
		}
		timer.Reset(retryInterval)
	}
}

// withTimeout calls check with checkTimeout.
func withTimeout(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return check(ctx)
}

// ensure updates the Secret, then the MutatingWebhookConfiguration, then the served certificate. In this order a
// certificate is trusted before it is served.
func (r *Rotator) ensure(ctx context.Context) error {
	current, err := r.ensureSecret(ctx)
	if err != nil {
		return err
	}
	if err := r.updateWebhook(ctx, current); err != nil {
		return err
	}
	pair, err := current.keyPair()
	if err == nil {
		r.serving.Store(pair)
	}
	return err
}

// ensureSecret reads the Secret, and writes a new certificate if it has no valid one.
func (r *Rotator) ensureSecret(ctx context.Context) (bundle, error) {
	secret := new(corev1.Secret)
	err := r.Client.Get(ctx, r.Secret, secret)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return bundle{}, fmt.Errorf("read Secret %s: %w", r.Secret, err)
	}
	current := bundleOf(secret.Data)
	if current.isValid(r.Names, r.Now()) {
		return current, nil
	}
	current, err = newBundle(webhookCA, r.Names, r.Now(), x509.ExtKeyUsageServerAuth)
	if err != nil {
		return bundle{}, err
	}
	secret.Data = current.content()
	if missing {
		secret.ObjectMeta = metav1.ObjectMeta{Namespace: r.Secret.Namespace, Name: r.Secret.Name}
		secret.Type = corev1.SecretTypeTLS
		err = r.Client.Create(ctx, secret)
	} else {
		err = r.Client.Update(ctx, secret) // fails if another replica has written it
	}
	if err != nil {
		return bundle{}, fmt.Errorf("write Secret %s: %w", r.Secret, err)
	}
	return current, nil
}

// updateWebhook sets the CA bundle in the MutatingWebhookConfiguration, if it exists.
func (r *Rotator) updateWebhook(ctx context.Context, current bundle) error {
	configuration := new(admissionregistrationv1.MutatingWebhookConfiguration)
	err := r.Client.Get(ctx, types.NamespacedName{Name: r.Webhook}, configuration)
	if apierrors.IsNotFound(err) {
		return nil // installed without the webhook
	}
	if err != nil {
		return fmt.Errorf("read MutatingWebhookConfiguration %s: %w", r.Webhook, err)
	}
	before := configuration.DeepCopy()
	isCurrent := true
	for i := range configuration.Webhooks {
		target := &configuration.Webhooks[i].ClientConfig
		trusted := current.caBundle(target.CABundle, r.Now())
		isCurrent = isCurrent && bytes.Equal(target.CABundle, trusted)
		target.CABundle = trusted
	}
	if isCurrent {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, configuration, patch); err != nil {
		return fmt.Errorf("write MutatingWebhookConfiguration %s: %w", r.Webhook, err)
	}
	return nil
}
