package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// Path is where the webhook is served.
const Path = "/mutate-scaledobjects"

// NewServer returns what serves the webhook. address is where KEDA reaches our scaler, and namespaces are
// those whose ScaledObjects are converted; none means all.
func NewServer(address string, namespaces []string, logger logr.Logger) (http.Handler, error) {
	hook, err := admission.StandaloneWebhook(
		&admission.Webhook{Handler: webhook{address, namespaces}}, admission.StandaloneOptions{Logger: logger})
	if err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST "+Path, hook)
	return mux, nil
}

// webhook is an admission.Handler.
type webhook struct {
	address    string
	namespaces []string
}

// Handle implements admission.Handler.
func (w webhook) Handle(_ context.Context, request admission.Request) admission.Response {
	var scaled apis.ScaledObject
	if json.Unmarshal(request.Object.Raw, &scaled) != nil {
		return admission.Allowed("") // The schema, which comes later, says what is wrong.
	}
	// Without a name, which is generated later, that of the HTTPScaledObject is open, too: the agent
	// converts it once it is there.
	if scaled.Name == "" {
		return admission.Allowed("")
	}
	var old *apis.ScaledObject
	if len(request.OldObject.Raw) > 0 && json.Unmarshal(request.OldObject.Raw, &old) != nil {
		old = nil // It was stored, so it can be read; without it names are made anew.
	}
	patch := desired.Convert(&scaled, old, w.address)
	if len(patch) == 0 {
		return admission.Allowed("")
	}
	if len(w.namespaces) > 0 && !slices.Contains(w.namespaces, request.Namespace) {
		return admission.Allowed("").WithWarnings(fmt.Sprintf("spec.triggers stay as they are, because the agent's "+
			"--namespaces has no %q: KEDA knows no type %s", request.Namespace, trigger.TypeHTTP))
	}
	text, err := json.Marshal(patch)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	kind := admissionv1.PatchTypeJSONPatch
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{
		Allowed: true, Patch: text, PatchType: &kind, Warnings: warnings(&scaled),
	}}
}

// warnings are the mistakes in the triggers that are converted.
func warnings(scaled *apis.ScaledObject) []string {
	var out []string
	for i, each := range scaled.Spec.Triggers {
		if each.Type != trigger.TypeHTTP {
			continue
		}
		_, problems := trigger.Parse(each.Metadata)
		for _, problem := range problems {
			out = append(out, fmt.Sprintf("spec.triggers[%d].metadata.%s", i, problem))
		}
	}
	return out
}
