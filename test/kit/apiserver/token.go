package apiserver

import (
	"context"
	"encoding/json"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// PodToken returns a token of a Pod with an audience, as the kubelet mounts it. It creates the Pod, and the
// ServiceAccount default, unless they exist.
func PodToken(ctx context.Context, admin rest.Interface, namespace, pod, audience string) (string, error) {
	const account = "default"
	path := "/api/v1/namespaces/" + namespace
	meta := func(kind string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: "v1", Kind: kind} }
	for resource, object := range map[string]any{
		"/serviceaccounts": &corev1.ServiceAccount{
			TypeMeta: meta("ServiceAccount"), ObjectMeta: metav1.ObjectMeta{Name: account},
		},
		"/pods": &corev1.Pod{
			TypeMeta: meta("Pod"), ObjectMeta: metav1.ObjectMeta{Name: pod},
			Spec: corev1.PodSpec{
				ServiceAccountName: account, Containers: []corev1.Container{{Name: "envoy", Image: "envoy"}},
			},
		},
	} {
		if err := Create(ctx, admin, path+resource, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return "", fmt.Errorf("create %s: %w", resource, err)
		}
	}
	request := &authenticationv1.TokenRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenRequest"},
		Spec: authenticationv1.TokenRequestSpec{
			Audiences:      []string{audience},
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod},
		},
	}
	body, err := json.Marshal(request)
	if err != nil {
		return "", err
	}
	answer, err := admin.Post().AbsPath(path+"/serviceaccounts/"+account+"/token").
		SetHeader("Content-Type", "application/json").Body(body).DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("request a token: %w", err)
	}
	err = json.Unmarshal(answer, request)
	return request.Status.Token, err
}
