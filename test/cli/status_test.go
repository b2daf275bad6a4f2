package cli_test

// ready returns the status of running Deployments.
func ready() map[string]string {
	all := map[string]string{}
	for _, name := range [][2]string{
		{"argo-rollouts", "argo-rollouts"},
		{"keda", "keda-add-ons-http-interceptor"},
		{"keda", "keda-add-ons-http-external-scaler"},
		{"keda", "keda-operator"},
		{"keda", "kedify-http-agent"},
	} {
		all[deployment(name[0], name[1])+"/status"] = `{status: {replicas: 1, readyReplicas: 1}}`
	}
	all["/api/v1/nodes/one/status"] = `{status: {nodeInfo: {architecture: amd64}}}`
	return all
}

// reports returns the status of testdata/applications.yaml in the middle of a canary.
func reports() map[string]string {
	return map[string]string{
		rolloutPath("shop", "shop") + "/status": `
status:
  phase: Paused
  message: CanaryPauseStep
  currentStepIndex: 1
  replicas: 3
  availableReplicas: 3
  readyReplicas: 3
  updatedReplicas: 1
  stableRS: "111"
  currentPodHash: "222"
  canary:
    weights:
      canary: {podTemplateHash: "222", serviceName: shop-canary, weight: 20}
      stable: {podTemplateHash: "111", serviceName: shop-stable, weight: 80}
      verified: true`,
		rolloutPath("web", "web") + "/status": `
status:
  phase: Paused
  currentStepIndex: 1
  replicas: 3
  availableReplicas: 3
  stableRS: "333"
  currentPodHash: "444"
  canary:
    weights:
      canary: {podTemplateHash: "444", serviceName: web-canary, weight: 25}
      stable: {podTemplateHash: "333", serviceName: web-stable, weight: 75}`,
		objectPath("shop", "shop") + "/status": `
status:
  conditions:
    - {type: Accepted, status: "True", reason: Accepted, observedGeneration: 1, lastTransitionTime: "2026-01-01T00:00:00Z", message: ""}
    - {type: Ready, status: "True", reason: Serving, observedGeneration: 1, lastTransitionTime: "2026-01-01T00:00:00Z", message: ""}
    - {type: Programmed, status: "True", reason: Programmed, observedGeneration: 1, lastTransitionTime: "2026-01-01T00:00:00Z", message: ""}
  dataPlane:
    annotationHash: "` + shopHash() + `"
    proxies: {ready: 2, acked: 2}
    effective: true
    weightedBackends: "- service: shop-stable\n  weight: 80\n- service: shop-canary\n  weight: 20\n"
    reportedBy: interceptor-1`,
		routePath("web", "web") + "/status": `
status:
  parents:
    - parentRef: {name: gateway}
      controllerName: example.com/gateway
      conditions:
        - {type: Accepted, status: "True", reason: Accepted, observedGeneration: 1, lastTransitionTime: "2026-01-01T00:00:00Z", message: ""}
        - {type: ResolvedRefs, status: "True", reason: ResolvedRefs, observedGeneration: 1, lastTransitionTime: "2026-01-01T00:00:00Z", message: ""}`,
		"/apis/keda.sh/v1alpha1/namespaces/shop/scaledobjects/shop/status": `
status:
  conditions: [{type: Ready, status: "True", reason: ScaledObjectReady, message: ""}]`,
	}
}
