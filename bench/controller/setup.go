package main

import (
	"context"
	"fmt"
	"path/filepath"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/interceptor"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/routerbench"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/stopwatch"
	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/rolloutscontroller"
)

// atOnce is the number of Rollouts that are created in parallel.
const atOnce = 8

// objects are the objects of one Rollout, by its name.
const objects = `
apiVersion: v1
kind: Service
metadata: {name: %[1]s-stable}
spec: {clusterIP: None, selector: {app: %[1]s}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: %[1]s-canary}
spec: {clusterIP: None, selector: {app: %[1]s}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: http.keda.sh/v1alpha1
kind: HTTPScaledObject
metadata: {name: %[1]s}
spec:
  hosts: [%[1]s.shop.test]
  scaleTargetRef: {name: %[1]s, kind: Rollout, apiVersion: argoproj.io/v1alpha1, service: %[1]s-stable, port: 80}
---
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: %[1]s}
spec:
  replicas: 1
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec: {containers: [{name: app, image: example.com/app, ports: [{name: http, containerPort: 8080}]}]}
  strategy:
    canary:
      stableService: %[1]s-stable
      canaryService: %[1]s-canary
      trafficRouting: {plugins: {%[2]s: {httpScaledObjectName: %[1]s}}}
      steps: [{setWeight: 20}, {pause: {}}, {setWeight: 50}, {pause: {}}]
`

// setup installs what the controller needs, creates the Rollouts and brings them to the phase Healthy. It uses the
// no-op plugin and simulates the Pods.
func (b bench) setup(ctx context.Context) error {
	err := rolloutscontroller.Install(ctx, b.admin, b.install, map[string]string{httpso.Type: b.files[noop]},
		filepath.Join(b.repo, "config/crd/http.keda.sh_httpscaledobjects.yaml"), filepath.Join(b.repo, "config/argo-rollouts/rbac.yaml"))
	if err != nil {
		return err
	}
	for _, name := range []string{routerbench.Namespace, httpv1alpha1.DefaultInterceptorNamespace} {
		if err := apiserver.CreateNamespace(ctx, b.admin, name); err != nil {
			return err
		}
	}
	controller, err := b.start(ctx, noop, "furnish")
	if err != nil {
		return err
	}
	playing, end := context.WithCancel(ctx)
	played := make(chan struct{})
	go func() {
		defer close(played)
		rolloutscontroller.NewClusterSimulator(b.admin, nil).Run(playing)
	}()
	err = b.create(ctx)
	end()
	<-played
	if ended := controller.Kill(); err == nil {
		err = ended
	}
	if err != nil {
		return err
	}
	return interceptor.KeepLease(ctx, b.admin)
}

// create creates the Rollouts and their objects, reports that none of them has a Ready proxy, and waits until they are
// Healthy.
func (b bench) create(ctx context.Context) error {
	_, err := stopwatch.Calls(atOnce, b.rollouts, func(n int) error {
		name := fmt.Sprintf("web-%05d", n)
		if err := apiserver.Apply(ctx, b.admin, routerbench.Namespace, fmt.Sprintf(objects, name, httpso.Type)); err != nil {
			return err
		}
		path := "/apis/" + httpv1alpha1.Group + "/" + httpv1alpha1.Version + "/namespaces/" + routerbench.Namespace + "/" +
			httpv1alpha1.Resource + "/" + name
		return interceptor.Report(ctx, b.admin, path, 0)
	})
	if err != nil {
		return err
	}
	return eventually(ctx, "all Rollouts Healthy", func() (bool, error) {
		healthy, err := b.healthy(ctx)
		return healthy == b.rollouts, err
	})
}
