package certificate

import (
	"bytes"
	"context"
	"crypto/tls"
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
	// lookEvery is how often the Secret and the MutatingWebhookConfiguration are looked at, and
	// lookLimit how long that may take.
	lookEvery, lookLimit = 10 * time.Second, 10 * time.Second
	// retryEvery is how soon it is tried again after a failure, such as another replica's write.
	retryEvery = time.Second
)

// ErrNone says that there is no certificate yet.
var ErrNone = errors.New("the webhook has no certificate yet")

// Rotation keeps one certificate. Its fields are set before Run and not changed afterwards.
type Rotation struct {
	// Client reads and writes without a cache.
	Client client.Client
	// Secret is where the certificate is stored.
	Secret types.NamespacedName
	// Webhook is the name of the MutatingWebhookConfiguration. It may be missing.
	Webhook string
	// Names are the DNS names of the webhook; at least one.
	Names []string
	// Now is the clock.
	Now func() time.Time
	// Logger takes failures.
	Logger *slog.Logger

	serving atomic.Pointer[tls.Certificate]
}

// Certificate is the certificate to serve with, as tls.Config.GetCertificate asks for it. Before
// there is one the error is ErrNone.
func (r *Rotation) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if found := r.serving.Load(); found != nil {
		return found, nil
	}
	return nil, ErrNone
}

// Run keeps the certificate until ctx ends.
func (r *Rotation) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		wait := lookEvery
		if err := r.ensure(ctx); err != nil && ctx.Err() == nil {
			r.Logger.WarnContext(ctx, "the webhook's certificate is not up to date", "error", err)
			wait = retryEvery
		}
		timer.Reset(wait)
	}
}

// ensure brings the Secret, the MutatingWebhookConfiguration and what is served up to date, in this
// order: what is served is trusted before it is served.
func (r *Rotation) ensure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	found, err := r.stored(ctx)
	if err != nil {
		return err
	}
	if err := r.tell(ctx, found); err != nil {
		return err
	}
	pair, err := found.pair()
	if err == nil {
		r.serving.Store(pair)
	}
	return err
}

// stored reads the Secret, and writes it where it has no good certificate.
func (r *Rotation) stored(ctx context.Context) (bundle, error) {
	secret := new(corev1.Secret)
	err := r.Client.Get(ctx, r.Secret, secret)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return bundle{}, fmt.Errorf("read Secret %s: %w", r.Secret, err)
	}
	found := bundleOf(secret.Data)
	if found.valid(r.Names, r.Now()) {
		return found, nil
	}
	if found, err = newBundle(r.Names, r.Now()); err != nil {
		return bundle{}, err
	}
	secret.Data = found.content()
	if missing {
		secret.ObjectMeta = metav1.ObjectMeta{Namespace: r.Secret.Namespace, Name: r.Secret.Name}
		secret.Type = corev1.SecretTypeTLS
		err = r.Client.Create(ctx, secret)
	} else {
		err = r.Client.Update(ctx, secret) // of the version that was read
	}
	if err != nil {
		return bundle{}, fmt.Errorf("write Secret %s: %w", r.Secret, err)
	}
	return found, nil
}

// tell writes whom to trust into the MutatingWebhookConfiguration, if there is one.
func (r *Rotation) tell(ctx context.Context, found bundle) error {
	configuration := new(admissionregistrationv1.MutatingWebhookConfiguration)
	err := r.Client.Get(ctx, types.NamespacedName{Name: r.Webhook}, configuration)
	if apierrors.IsNotFound(err) {
		return nil // whoever installed the agent does without the webhook
	}
	if err != nil {
		return fmt.Errorf("read MutatingWebhookConfiguration %s: %w", r.Webhook, err)
	}
	before := configuration.DeepCopy()
	told := true
	for i := range configuration.Webhooks {
		target := &configuration.Webhooks[i].ClientConfig
		trust := found.trust(target.CABundle, r.Now())
		told = told && bytes.Equal(target.CABundle, trust)
		target.CABundle = trust
	}
	if told {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, configuration, patch); err != nil {
		return fmt.Errorf("write MutatingWebhookConfiguration %s: %w", r.Webhook, err)
	}
	return nil
}
