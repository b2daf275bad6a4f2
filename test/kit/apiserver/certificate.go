package apiserver

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// CreateInterceptorCertificate creates the Secret with the interceptor's certificate, with the default name in the
// default namespace, which must exist.
func CreateInterceptorCertificate(ctx context.Context, admin rest.Interface, data map[string][]byte) error {
	const namespace = httpv1alpha1.DefaultInterceptorNamespace
	return Create(ctx, admin, "/api/v1/namespaces/"+namespace+"/secrets", &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: httpv1alpha1.InterceptorTLSSecret},
		Type:       corev1.SecretTypeTLS, Data: data,
	})
}
