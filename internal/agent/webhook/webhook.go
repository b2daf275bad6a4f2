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

	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// Path is the URL path of the webhook.
const Path = "/mutate-scaledobjects"

// NewServer returns the HTTP handler of the webhook. address is the address at which KEDA reaches the agent's
// scaler. namespaces limits the conversion to ScaledObjects of these namespaces; an empty list means all.
func NewServer(address string, namespaces []string, logger logr.Logger) (http.Handler, error) {
	hook, err := admission.StandaloneWebhook(
		&admission.Webhook{Handler: webhook{address, namespaces}}, admission.StandaloneOptions{Logger: logger})
	if err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST "+Path, limit(hook))
	return mux, nil
}

// webhook implements admission.Handler.
type webhook struct {
	address    string
	namespaces []string
}

// Handle implements admission.Handler.
func (w webhook) Handle(_ context.Context, request admission.Request) admission.Response {
	var scaled apis.ScaledObject
	if json.Unmarshal(request.Object.Raw, &scaled) != nil {
		return admission.Allowed("") // schema validation runs later and reports the error
	}
	// With generateName the name is unknown, and so is that of the HTTPScaledObject. The agent converts the
	// object after its creation.
	if scaled.Name == "" {
		return admission.Allowed("")
	}
	var old *apis.ScaledObject
	if len(request.OldObject.Raw) > 0 && json.Unmarshal(request.OldObject.Raw, &old) != nil {
		old = nil // cannot happen for a stored object; without it, names are generated again
	}
	patch := desired.Convert(&scaled, old, w.address)
	if len(patch) == 0 {
		return admission.Allowed("")
	}
	if len(w.namespaces) > 0 && !slices.Contains(w.namespaces, request.Namespace) {
		return admission.Allowed("").WithWarnings(fmt.Sprintf("spec.triggers: not converted, because the agent's "+
			"--namespaces does not include %q: KEDA supports neither type %s nor type %s", request.Namespace, trigger.TypeHTTP,
			trigger.TypeEnvoyHTTP))
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

// warnings returns the validation errors of the converted triggers.
func warnings(scaled *apis.ScaledObject) []string {
	var out []string
	for i, candidate := range scaled.Spec.Triggers {
		if !trigger.IsUserType(candidate.Type) {
			continue
		}
		parse := trigger.Parse
		if trigger.IsExternal(candidate.Type, candidate.Metadata) {
			parse = trigger.ParseExternal
		}
		_, problems := parse(candidate.Metadata)
		for _, problem := range problems {
			out = append(out, fmt.Sprintf("spec.triggers[%d].metadata.%s", i, problem))
		}
	}
	return out
}
