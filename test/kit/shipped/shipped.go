// Package shipped contains the memory settings of the components' Deployments.
package shipped

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/config"
)

// Interceptor is the file of the interceptor's Deployment.
const Interceptor = "interceptor/deployment.yaml"

// Settings returns the memory limit in bytes of the Deployment in a file below config, and its environment variables that
// control the garbage collector.
func Settings(file string) (limit int, variables []string, err error) {
	text, err := config.Files.ReadFile(file)
	if err != nil {
		return 0, nil, err
	}
	first, _, _ := strings.Cut(string(text), "\n---")
	var deployment appsv1.Deployment
	if err := yaml.UnmarshalStrict([]byte(first), &deployment); err != nil {
		return 0, nil, err
	}
	container := deployment.Spec.Template.Spec.Containers[0]
	for _, variable := range container.Env {
		if strings.HasPrefix(variable.Name, "GO") {
			variables = append(variables, variable.Name+"="+variable.Value)
		}
	}
	return int(container.Resources.Limits.Memory().Value()), variables, nil
}
