package helm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// errComponents means that a component has no Pod, or another image than expected.
var errComponents = errors.New("the components are not as expected")

// components are the components of the chart by the label of their Pods, with their Deployments.
func components() map[string]string {
	return map[string]string{
		"interceptor": "keda-add-ons-http-interceptor", "scaler": "keda-add-ons-http-external-scaler",
		"agent": "kedify-http-agent",
	}
}

// fields returns the output of kubectl in a namespace, split at spaces.
func (e *environment) fields(ctx context.Context, namespace string, args ...string) ([]string, error) {
	out, err := e.Kubectl(ctx, append([]string{"kubectl", "-n", namespace}, args...)...)
	return strings.Fields(out), err
}

// pods returns the names of the Pods of the components, and of the proxies of the testbed's application.
func (e *environment) pods(ctx context.Context) ([]string, error) {
	const names = "jsonpath={.items[*].metadata.name}"
	all, err := e.fields(ctx, testbed.Namespace, "get", "pods", "-l", "app=kedify-proxy", "-o", names)
	for component := range components() {
		found, componentErr := e.fields(ctx, e.namespace, "get", "pods", "-l", "app.kubernetes.io/component="+component,
			"-o", names)
		if len(found) == 0 && componentErr == nil {
			componentErr = fmt.Errorf("%w: there is no Pod of the %s", errComponents, component)
		}
		all, err = append(all, found...), errors.Join(err, componentErr)
	}
	return all, err
}

// awaitReplaced waits until no earlier Pod exists, and the new proxies have a weight.
func (e *environment) awaitReplaced(ctx context.Context, old []string, proxies, weight int) error {
	var left []string
	var err error
	if err := await.Until(ctx, "all Pods to be replaced", func() bool {
		var present []string
		present, err = e.pods(ctx)
		left = slices.DeleteFunc(slices.Clone(old), func(name string) bool { return !slices.Contains(present, name) })
		return err == nil && len(left) == 0
	}, func() string { return fmt.Sprintf("%v exist, %v", left, err) }); err != nil {
		return err
	}
	if err := e.awaitComponents(ctx); err != nil {
		return err
	}
	return e.AwaitProxies(ctx, proxies, weight)
}

// awaitComponents waits until the Deployments of the components are complete, and no Pod of them terminates.
func (e *environment) awaitComponents(ctx context.Context) error {
	for _, deployment := range slices.Sorted(maps.Values(components())) {
		if _, err := e.fields(ctx, e.namespace, "rollout", "status", "deployment/"+deployment,
			testbed.WaitTimeout()); err != nil {
			return err
		}
	}
	var terminating []string
	var err error
	return await.Until(ctx, "no Pod of the components to terminate", func() bool {
		terminating, err = e.fields(ctx, e.namespace, "get", "pods", "-l", "app.kubernetes.io/name=http-add-on", "-o",
			`jsonpath={range .items[?(@.metadata.deletionTimestamp)]}{.metadata.name} {end}`)
		return err == nil && len(terminating) == 0
	}, func() string { return fmt.Sprint(terminating, err) })
}

// checkTag checks that the components run the images of a tag.
func (e *environment) checkTag(ctx context.Context, tag string) error {
	for component := range components() {
		images, err := e.fields(ctx, e.namespace, "get", "pods", "-l", "app.kubernetes.io/component="+component, "-o",
			"jsonpath={.items[*].spec.containers[*].image}")
		if err != nil {
			return err
		}
		want := "registry.example.com/kedify/argo-rollouts-plugin/" + component + ":" + tag
		if slices.ContainsFunc(images, func(image string) bool { return image != want }) || len(images) == 0 {
			return fmt.Errorf("%w: the %s runs %v, want %s", errComponents, component, images, want)
		}
	}
	return nil
}
