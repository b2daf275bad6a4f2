// Package components lists the installed components with their versions. It is pure.
package components

import (
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/output"
)

// Component is an installed component.
type Component struct {
	// Name is the component, such as interceptor, or "plugin kedify/http".
	Name string `json:"name"`
	// Object is the namespace and name of its Deployment or ConfigMap.
	Object string `json:"object"`
	// Version is its version; empty if neither its image nor its location contain one.
	Version string `json:"version,omitempty"`
	// Source is its image, or the location of a plugin.
	Source string `json:"source"`
	// Ready and Replicas are the numbers of its Pods; nil for plugins.
	Ready    *int32 `json:"ready,omitempty"`
	Replicas *int32 `json:"replicas,omitempty"`
}

// Of returns the components of an installation: those of this project, the plugins of the controller, Argo Rollouts and
// KEDA.
func Of(cluster *facts.Facts) []Component {
	all := []Component{}
	add := func(name string, deployment *appsv1.Deployment) {
		if deployment != nil {
			all = append(all, component(name, deployment))
		}
	}
	add("interceptor", cluster.Interceptor)
	add("scaler", cluster.Scaler)
	add("agent", cluster.Agent)
	for _, namespace := range slices.Sorted(maps.Keys(cluster.Proxies)) {
		add("proxy", cluster.Proxies[namespace])
	}
	add("Argo Rollouts", cluster.Controller)
	all = append(all, plugins(cluster)...)
	add("KEDA", cluster.Operator)
	for _, other := range cluster.Others {
		add(facts.OtherProduct(other), other)
	}
	return all
}

// component describes a Deployment. Its version is the tag of the first container's image or, if that is no version, the
// label app.kubernetes.io/version.
func component(name string, deployment *appsv1.Deployment) Component {
	replicas := int32(1)
	if deployment.Spec.Replicas != nil {
		replicas = *deployment.Spec.Replicas
	}
	described := Component{
		Name: name, Object: deployment.Namespace + "/" + deployment.Name, Ready: &deployment.Status.ReadyReplicas,
		Replicas: &replicas, Version: deployment.Labels[facts.LabelVersion],
	}
	if containers := deployment.Spec.Template.Spec.Containers; len(containers) > 0 {
		described.Source = containers[0].Image
		if tag := tagOf(described.Source); tag != "" {
			described.Version = tag
		}
	}
	return described
}

// tagOf returns the tag of an image; empty if it has none.
func tagOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if at := strings.LastIndex(image, ":"); at > strings.LastIndex(image, "/") {
		return image[at+1:]
	}
	return ""
}

// plugins returns the traffic routers that the controller loads.
func plugins(cluster *facts.Facts) []Component {
	if cluster.Plugins == nil {
		return nil
	}
	var listed []struct{ Name, Location string }
	// doctor reports an invalid list.
	_ = yaml.Unmarshal([]byte(cluster.Plugins.Data[facts.PluginsKey]), &listed)
	var all []Component
	for _, plugin := range listed {
		entry := Component{
			Name: "plugin " + plugin.Name, Object: cluster.Plugins.Namespace + "/" + cluster.Plugins.Name, Source: plugin.Location,
		}
		if match := regexp.MustCompile(`/v(\d+\.\d+\.\d+[^/]*)/`).FindStringSubmatch(plugin.Location); match != nil {
			entry.Version = match[1]
		} else if strings.HasPrefix(plugin.Location, "file://") && cluster.Controller != nil {
			entry.Version = initVersion(cluster.Controller, plugin.Location)
		}
		all = append(all, entry)
	}
	return all
}

// initVersion returns the tag of the init container that copies the file of a plugin: the one whose command or arguments
// contain the name of the file, or the only one.
func initVersion(controller *appsv1.Deployment, location string) string {
	containers := controller.Spec.Template.Spec.InitContainers
	file := location[strings.LastIndex(location, "/")+1:]
	for i := range containers {
		text := strings.Join(append(slices.Clone(containers[i].Command), containers[i].Args...), " ") + containers[i].Image
		if strings.Contains(text, file) || len(containers) == 1 {
			return tagOf(containers[i].Image)
		}
	}
	return ""
}

// Print prints the components as a table: format Wide with their images, format Name their names.
func Print(out io.Writer, format output.Format, hasHeaders bool, all []Component) error {
	if format == output.Name {
		var text strings.Builder
		for _, entry := range all {
			fmt.Fprintln(&text, entry.Name)
		}
		_, err := io.WriteString(out, text.String())
		return err
	}
	table := output.Rows{Columns: output.Columns("COMPONENT", "VERSION", "READY", "OBJECT", "IMAGE OR LOCATION+")}
	for _, entry := range all {
		ready := ""
		if entry.Ready != nil {
			ready = fmt.Sprintf("%d/%d", *entry.Ready, *entry.Replicas)
		}
		table.Add(entry.Name, entry.Version, ready, entry.Object, entry.Source)
	}
	return table.Print(out, format, hasHeaders)
}
