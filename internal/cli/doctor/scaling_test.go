package doctor_test

import (
	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/doctor"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// scaling are breakages of KEDA and the scaler.
func scaling() []breakage {
	const keda, scaler = "Deployment keda/keda-operator", "Deployment keda/keda-add-ons-http-external-scaler"
	return []breakage{
		{
			name: "no KEDA", change: change(func(f *facts.Facts) { f.Operator = nil }),
			code: doctor.KEDANotFound, object: keda, fix: "install KEDA 2.18.0",
		},
		{
			name: "the CRDs of KEDA are missing", change: change(func(f *facts.Facts) {
				delete(f.CRDs, facts.ScaledObjectsCRD)
				f.ScaledObjects = nil
			}),
			code: doctor.KEDANotFound, object: keda, fix: "install KEDA 2.18.0",
		},
		{
			name: "KEDA is too old", change: change(func(f *facts.Facts) {
				f.Operator.Spec.Template.Spec.Containers[0].Image = "registry.example.com:5000/keda:2.17.2@sha256:0"
			}),
			code: doctor.KEDATooOld, object: keda, fix: "update KEDA to 2.18.0",
		},
		{
			name: "KEDA is not ready", change: change(func(f *facts.Facts) { f.Operator.Status.ReadyReplicas = 0 }),
			code: doctor.KEDANotReady, object: keda, field: "status.readyReplicas",
			fix: "logs deployment/keda-operator",
		},
		{
			name: "scaledRefKinds lacks Rollouts", change: denyController("get", "rollouts"),
			code: doctor.ScaledRefKinds, object: "ServiceAccount keda/keda-operator", fix: "rbac.scaledRefKinds",
		},
		{
			name: "no scaler", change: change(func(f *facts.Facts) { f.Scaler = nil }),
			code: doctor.ScalerNotFound, object: scaler, fix: "config/scaler",
		},
		{
			name: "the scaler is not ready", change: change(func(f *facts.Facts) { f.Scaler.Status.ReadyReplicas = 0 }),
			code: doctor.ScalerNotReady, object: scaler, field: "status.readyReplicas", fix: "every interceptor",
		},
		{
			name: "a trigger type that requires the agent", change: change(func(f *facts.Facts) {
				f.ScaledObjects[0].Spec.Triggers[0].Type = "kedify-http"
				f.ScaledObjects[0].Status.Conditions[0].Status = "False"
				f.Agent, f.Webhook, f.HTTPScaledObjects[0].Labels = nil, nil, nil
			}),
			code: doctor.TriggerNotConverted, object: "ScaledObject shop/shop", field: "spec.triggers",
			fix: "config/agent",
		},
		{
			name: "a trigger that the agent has not converted", change: change(func(f *facts.Facts) {
				f.ScaledObjects[0].Spec.Triggers[0].Type = "kedify-http"
				f.ScaledObjects[0].Status.Conditions[0].Status = "False"
			}),
			code: doctor.TriggerNotConverted, object: "ScaledObject shop/shop", field: "spec.triggers",
			fix: "--namespaces",
		},
		{
			name: "an invalid trigger", change: change(func(f *facts.Facts) {
				f.ScaledObjects[0].Annotations = map[string]string{
					httpv1alpha1.AnnotationTriggerProblems: `spec.triggers[0].metadata.hosts is missing`,
				}
			}),
			code: doctor.TriggerInvalid, object: "ScaledObject shop/shop", field: "spec.triggers",
			fix: "docs/reference/configuration.md",
		},
		{
			name: "a ScaledObject that is not Ready", change: change(func(f *facts.Facts) {
				ready := &f.ScaledObjects[0].Status.Conditions[0]
				ready.Status, ready.Reason = "False", "ScaledObjectCheckFailed"
				ready.Message = "Triggers defined in ScaledObject are not working correctly"
			}),
			code: doctor.ScaledObjectNotReady, object: "ScaledObject shop/shop", field: "status.conditions[Ready]",
			fix: "events",
		},
		{
			name: "an autoscaler without metrics", change: change(func(f *facts.Facts) {
				active := &f.Autoscalers[0].Status.Conditions[1]
				active.Reason = "FailedGetExternalMetric"
				active.Message = "the HPA was unable to compute the replica count: unable to get external metric " +
					"shop/s0-http-request-rate: no matching metrics found for s0-http-request-rate"
			}),
			code: doctor.AutoscalerNotActive, object: "HorizontalPodAutoscaler shop/keda-hpa-shop",
			field: "status.conditions[ScalingActive]",
			fix:   "v1beta1.external.metrics.k8s.io",
		},
	}
}
