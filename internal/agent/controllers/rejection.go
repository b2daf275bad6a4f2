package controllers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/truncate"
)

// warnRejected emits a Warning Event about a write that the API server has rejected. what is the write. It emits none if
// the next attempt may succeed without a change by a user.
func warnRejected(events record.EventRecorder, about client.Object, what string, err error) {
	if isTransient(err) {
		return
	}
	reason, message := rejection(what, err)
	events.Event(about, corev1.EventTypeWarning, reason, truncate.Text(message, maxEvent))
}

// isTransient reports whether a write may succeed later without a change by a user.
func isTransient(err error) bool {
	var network net.Error
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || errors.As(err, &network) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// rejection returns the reason and the message of a rejected write, with the fix. A permission is the agent's; the API
// server answers with the same status if a quota or a webhook rejects the write, and only the text differs
// (k8s.io/apiserver, pkg/endpoints/handlers/responsewriters).
func rejection(what string, err error) (reason, message string) {
	text := describe(err)
	if apierrors.IsForbidden(err) && strings.Contains(text, " cannot ") && strings.Contains(text, " resource ") {
		return httpv1alpha1.ReasonWriteForbidden, fmt.Sprintf("%s: %s: grant the permission to ServiceAccount "+
			"kedify-http-agent: apply config/agent/rbac.yaml", what, text)
	}
	return httpv1alpha1.ReasonWriteRejected, fmt.Sprintf("%s: %s: correct what the API server rejects; the agent tries "+
		"again", what, text)
}
