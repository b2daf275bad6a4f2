package certificate

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

const (
	// overlap is how long proxies trust a new CA before a certificate of it is served. The kubelet updates a mounted
	// ConfigMap within about two minutes.
	overlap = 24 * time.Hour
	// nextCertificateKey, nextKeyKey and nextCAKey are the keys of the Secret of the next certificate, which is not
	// served yet.
	nextCertificateKey, nextKeyKey, nextCAKey = "next.crt", "next.key", "next-ca.crt"
)

// errNoCA means that a Secret that the agent does not manage has no valid CA.
var errNoCA = errors.New("the key " + caKey + " has no valid certificate of a CA")

// Issuer keeps the certificate of the interceptor valid, which its replicas serve and present to each other. Set its
// fields before Run and do not change them afterwards.
type Issuer struct {
	// Client reads and writes without a cache.
	Client client.Client
	// Secret is the Secret with the certificate. A Secret without the agent's label is managed by someone else, such as
	// cert-manager, and never changed.
	Secret types.NamespacedName
	// IsExternal is true if someone else creates the Secret, too.
	IsExternal bool
	// Services are the names of the Services in the Secret's namespace that the certificate is for.
	Services []string
	// Now is the clock.
	Now func() time.Time
	// Logger receives errors.
	Logger *slog.Logger
	// Changed receives an Event about the Secret when the result of CA changes. It has room for one; nil disables it.
	Changed chan event.GenericEvent

	ca atomic.Pointer[[]byte]
}

// CA returns the CAs that clients of the interceptor trust, in PEM, nil before the first certificate.
func (i *Issuer) CA() []byte {
	if current := i.ca.Load(); current != nil {
		return *current
	}
	return nil
}

// Run keeps the certificate valid until ctx is canceled.
func (i *Issuer) Run(ctx context.Context) error {
	return runEvery(ctx, i.ensure, func(err error) {
		i.Logger.WarnContext(ctx, "update of the interceptor's certificate failed", "error", err)
	})
}

// ensure reads the Secret, writes it if something is due, and publishes its CAs: to proxies by CA, and to the scaler in a
// ConfigMap.
func (i *Issuer) ensure(ctx context.Context) error {
	secret := new(corev1.Secret)
	err := i.Client.Get(ctx, i.Secret, secret)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return fmt.Errorf("read Secret %s: %w", i.Secret, err)
	}
	switch isManaged := secret.Labels[httpv1alpha1.LabelManagedBy] == httpv1alpha1.ManagedByAgent; {
	case missing && i.IsExternal:
		return fmt.Errorf("%w: create it, for example by cert-manager", err)
	case missing:
		secret.ObjectMeta = metav1.ObjectMeta{
			Namespace: i.Secret.Namespace, Name: i.Secret.Name,
			Labels: map[string]string{httpv1alpha1.LabelManagedBy: httpv1alpha1.ManagedByAgent},
		}
		secret.Type = corev1.SecretTypeTLS
	case i.IsExternal || !isManaged:
		return i.publish(ctx, func(before []byte) []byte { return validCAs(secret.Data[caKey], before, i.Now()) })
	}
	renewed, err := renew(secret.Data, i.names(), i.Now())
	if err != nil {
		return err
	}
	if !maps.EqualFunc(renewed, secret.Data, bytes.Equal) {
		if secret.Data = renewed; missing {
			err = i.Client.Create(ctx, secret)
		} else {
			err = i.Client.Update(ctx, secret) // fails if another replica has written it
		}
		if err != nil {
			return fmt.Errorf("write Secret %s: %w", i.Secret, err)
		}
	}
	return i.publish(ctx, func([]byte) []byte { return renewed[caKey] })
}

// names returns the DNS names in the certificate. The first one, which becomes its common name, is short.
func (i *Issuer) names() []string {
	names := []string{interceptorCA}
	for _, service := range i.Services {
		names = append(names, service+"."+i.Secret.Namespace+".svc")
	}
	return names
}

// publish sets the result of CA to that of next, which receives the CAs published before, and publishes it for the
// scaler. A ConfigMap without the agent's label belongs to someone else, and is not changed.
func (i *Issuer) publish(ctx context.Context, next func(before []byte) []byte) error {
	name := types.NamespacedName{Namespace: i.Secret.Namespace, Name: httpv1alpha1.InterceptorCA}
	published := new(corev1.ConfigMap)
	err := i.Client.Get(ctx, name, published)
	isMissing := apierrors.IsNotFound(err)
	before := i.CA()
	if text := published.Data[httpv1alpha1.InterceptorCAKey]; before == nil && text != "" {
		before = []byte(text)
	}
	ca := next(before)
	if len(ca) == 0 {
		return fmt.Errorf("read the CA in Secret %s: %w", i.Secret, errNoCA)
	}
	i.setCA(ca)
	isManaged := isMissing || published.Labels[httpv1alpha1.LabelManagedBy] == httpv1alpha1.ManagedByAgent
	switch {
	case err != nil && !isMissing:
		return fmt.Errorf("read ConfigMap %s: %w", name, err)
	case !isManaged || published.Data[httpv1alpha1.InterceptorCAKey] == string(ca):
		return nil
	}
	wanted := &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: name.Namespace, Name: name.Name,
			Labels: map[string]string{httpv1alpha1.LabelManagedBy: httpv1alpha1.ManagedByAgent},
		},
		Data: map[string]string{httpv1alpha1.InterceptorCAKey: string(ca)},
	}
	err = i.Client.Patch(ctx, wanted, client.Apply, client.ForceOwnership, client.FieldOwner(httpv1alpha1.ManagedByAgent))
	if err != nil {
		return fmt.Errorf("write ConfigMap %s: %w", name, err)
	}
	return nil
}

// setCA sets the result of CA.
func (i *Issuer) setCA(ca []byte) {
	if bytes.Equal(i.CA(), ca) {
		return
	}
	i.ca.Store(&ca)
	about := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: i.Secret.Namespace, Name: i.Secret.Name}}
	select {
	case i.Changed <- event.GenericEvent{Object: about}:
	default:
	}
}

// renew returns the data of a Secret that the agent manages, unchanged if nothing is due. A certificate is replaced in
// two steps: first its successor is stored and the CA of the successor is trusted in addition, and after overlap the
// successor is served. A certificate that is not valid at all is replaced at once.
func renew(data map[string][]byte, names []string, now time.Time) (map[string][]byte, error) {
	current := bundleOf(data)
	next := bundle{data[nextCAKey], data[nextCertificateKey], data[nextKeyKey]}
	hasNext := next.isValid(names, now)
	switch {
	case current.isValid(names, now), current.isValidAt(names, now) && hasNext && now.Before(next.begin().Add(overlap)):
		return data, nil
	case hasNext:
		promoted := next.content()
		promoted[caKey] = next.caBundle(data[caKey], now)
		return promoted, nil
	}
	made, err := newBundle(interceptorCA, names, now, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth)
	if err != nil {
		return nil, err
	}
	if !current.isValidAt(names, now) {
		content := made.content()
		content[caKey] = made.caBundle(data[caKey], now)
		return content, nil
	}
	content := maps.Clone(data)
	content[nextCertificateKey], content[nextKeyKey], content[nextCAKey] = made.certificate, made.key, made.ca
	content[caKey] = slices.Concat(firstCertificate(current.ca), made.ca)
	return content, nil
}

// begin returns when the bundle was created; the zero time if it has no certificate.
func (b bundle) begin() time.Time {
	block, _ := pem.Decode(b.certificate)
	if block == nil {
		return time.Time{}
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}
	}
	return parsed.NotBefore.Add(backdate)
}

// firstCertificate returns the first certificate of a PEM text.
func firstCertificate(text []byte) []byte {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil
	}
	return pem.EncodeToMemory(block)
}

// validCAs returns the CAs that clients trust: those of a Secret that someone else manages, and the unexpired ones
// before. nil means that the Secret has none.
func validCAs(current, before []byte, now time.Time) []byte {
	all := unexpired(current, now)
	if len(all) == 0 {
		return nil
	}
	for _, text := range unexpired(before, now) {
		if !slices.ContainsFunc(all, func(other []byte) bool { return bytes.Equal(other, text) }) {
			all = append(all, text)
		}
	}
	return slices.Concat(all...)
}
