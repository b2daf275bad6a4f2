package doctor

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// plugin is an entry of the controller's list of plugins (argo-rollouts, utils/plugin/types, PluginItem).
type plugin struct {
	Name        string   `json:"name"`
	Location    string   `json:"location"`
	SHA256      string   `json:"sha256"`
	Disabled    bool     `json:"disabled"`
	Args        []string `json:"args"`
	HeadersFrom []any    `json:"headersFrom"`
}

// exampleEntry is a valid entry.
const exampleEntry = `- {name: "kedify/http", location: "https://...", sha256: "..."}`

// pluginsField is the field with the list.
const pluginsField = "data." + facts.PluginsKey

// registration checks the list of plugins that the controller reads.
func registration(cluster *facts.Facts) []Finding {
	if !cluster.HasRead(facts.Deployments) || !cluster.HasRead(facts.Plugins) || cluster.Controller == nil {
		return nil
	}
	object := configMap(cluster)
	var text string
	if cluster.Plugins != nil {
		text = cluster.Plugins.Data[facts.PluginsKey]
	}
	var listed []plugin
	if err := yaml.Unmarshal([]byte(text), &listed); err != nil {
		return []Finding{{
			Code: PluginsMalformed, Severity: Error, Object: object, Field: pluginsField,
			Message: fmt.Sprintf("not a YAML list of plugins, so the controller does not start: %v", err),
			Fix:     "write a list in the block after |: " + exampleEntry,
		}}
	}
	var findings []Finding
	if err := yaml.UnmarshalStrict([]byte(text), &[]plugin{}); err != nil {
		findings = append(findings, Finding{
			Code: PluginKeyUnknown, Severity: Warning, Object: object, Field: pluginsField,
			Message: fmt.Sprintf("an entry has a key that the controller ignores: %v", err),
			Fix:     "correct the key: the keys are name, location, sha256, args, headersFrom and disabled",
		})
	}
	for i, entry := range listed {
		findings = append(findings, checkPlugin(cluster, object, fmt.Sprintf("%s[%d]", pluginsField, i), entry,
			listed[:i])...)
	}
	return append(findings, unregistered(cluster, object, listed)...)
}

// configMap returns the object name of the controller's ConfigMap.
func configMap(cluster *facts.Facts) string {
	return objectName("ConfigMap", cluster.Controller.Namespace, facts.ConfigMapName)
}

// checkPlugin checks one entry, given the entries before it. Entries of other plugins are checked only for errors that
// prevent the controller from starting.
func checkPlugin(cluster *facts.Facts, object, field string, entry plugin, before []plugin) []Finding {
	var findings []Finding
	finding := func(code Code, severity Severity, key, message, fix string) {
		findings = append(findings, Finding{
			Code: code, Severity: severity, Object: object, Field: field + key,
			Message: message, Fix: fix,
		})
	}
	// argo-rollouts, utils/config, ValidateConfig.
	if !regexp.MustCompile(`^[a-zA-Z0-9-]+/[a-zA-Z0-9_.-]+$`).MatchString(entry.Name) {
		finding(PluginNameMalformed, Error, ".name",
			fmt.Sprintf("%q is not a valid plugin name, so the controller does not start", entry.Name),
			"use a name with one slash, e.g. "+facts.HTTPRouter)
	}
	if slices.ContainsFunc(before, func(other plugin) bool { return other.Name == entry.Name }) {
		finding(PluginTwice, Warning, ".name",
			fmt.Sprintf("%q is in the list twice: the controller uses the first entry",
				entry.Name), "remove one of them")
	}
	if sum := entry.SHA256; sum != "" && !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(sum) {
		finding(ChecksumMalformed, Error, ".sha256",
			fmt.Sprintf("%.80q is not a SHA-256 checksum: 64 lower-case hexadecimal digits expected", sum),
			"copy the checksum of the file from checksums.txt of the release")
	}
	for _, other := range before {
		if entry.SHA256 != "" && other.SHA256 == entry.SHA256 && other.Location != entry.Location {
			finding(ChecksumRepeated, Error, ".sha256",
				fmt.Sprintf("%q and %q have the same checksum for different files: the controller rejects one of them",
					other.Name, entry.Name), "copy the checksum of each file from checksums.txt of the release")
		}
	}
	return append(findings, checkLocation(cluster, object, field+".location", entry.Location)...)
}

// checkLocation checks the location of a plugin.
func checkLocation(cluster *facts.Facts, object, field, location string) []Finding {
	parsed, err := url.Parse(location)
	if err != nil || !slices.Contains([]string{"http", "https", "file"}, parsed.Scheme) || parsed.Path == "" {
		return []Finding{{
			Code: LocationInvalid, Severity: Error, Object: object, Field: field,
			Message: fmt.Sprintf("%q is not a URL that the controller can download a plugin from", location),
			Fix:     "use a URL that begins with https://, http:// or file://",
		}}
	}
	if parsed.Scheme == "file" {
		return missingFile(cluster, object, field, parsed.Path)
	}
	return wrongPlatform(cluster, object, field, parsed.Path)
}

// missingFile reports a file in an emptyDir that no init container mounts.
func missingFile(cluster *facts.Facts, object, field, file string) []Finding {
	pod := cluster.Controller.Spec.Template.Spec
	volume := volumeOf(&pod, file)
	mounts := func(container corev1.Container) bool {
		return slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume })
	}
	isEmpty := slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
		return v.Name == volume &&
			v.EmptyDir != nil
	})
	if !isEmpty || slices.ContainsFunc(pod.InitContainers, mounts) {
		return nil
	}
	return []Finding{{
		Code: FileNotProvided, Severity: Error, Object: object, Field: field,
		Message: fmt.Sprintf("%s is in volume %q of Deployment %s, an emptyDir that no init container mounts: the "+
			"file does not exist",
			file, volume, cluster.Controller.Name),
		Fix: "add the init container of config/argo-rollouts/deployment-patch.yaml, or use an https:// location " +
			"(docs/how-to/install-plugins.md)",
	}}
}

// volumeOf returns the volume that contains a file; empty if the file is in the image.
func volumeOf(pod *corev1.PodSpec, file string) string {
	for _, container := range pod.Containers {
		for _, mount := range container.VolumeMounts {
			if strings.HasPrefix(file, strings.TrimSuffix(mount.MountPath, "/")+"/") {
				return mount.Name
			}
		}
	}
	return ""
}

// wrongPlatform compares the platform in a file's name with the nodes that the controller runs on or may run on.
func wrongPlatform(cluster *facts.Facts, object, field, file string) []Finding {
	system, architecture := filePlatform(file)
	if system == "" {
		return nil
	}
	finding := Finding{
		Code: ArchitectureMismatch, Severity: Error, Object: object, Field: field,
		Fix: "use the release's file for the controller's nodes, and its checksum. If the architectures of the " +
			"nodes differ, set nodeSelector kubernetes.io/arch in the controller's Deployment, or use the init container " +
			"(docs/how-to/install-plugins.md, option C)",
	}
	if system != "linux" {
		finding.Message = fmt.Sprintf("%s is a file for %s, but the controller runs on linux",
			file[strings.LastIndex(file, "/")+1:], system)
		return []Finding{finding}
	}
	running, others := map[string]string{}, map[string]string{} // architecture → node
	for _, node := range cluster.Nodes {
		isRunning := slices.ContainsFunc(cluster.Pods,
			func(pod corev1.Pod) bool { return pod.Spec.NodeName == node.Name })
		if other := node.Status.NodeInfo.Architecture; isRunning && other != architecture {
			running[other] = node.Name
		} else if other != architecture && mayRun(cluster, node.Labels) {
			others[other] = node.Name
		}
	}
	for _, other := range slices.Sorted(maps.Keys(running)) {
		finding.Message = fmt.Sprintf("the file is for %s, but the controller runs on node %s with architecture %s: "+
			"the plugin fails with exec format error",
			architecture, running[other], other)
		return []Finding{finding}
	}
	for _, other := range slices.Sorted(maps.Keys(others)) {
		finding.Code, finding.Severity = ArchitectureMixed, Warning
		finding.Message = fmt.Sprintf("the file is for %s, but the controller may be scheduled on node %s with "+
			"architecture %s", architecture, others[other], other)
		return []Finding{finding}
	}
	return nil
}

// mayRun reports whether the controller may be scheduled on a node with these labels.
func mayRun(cluster *facts.Facts, labels map[string]string) bool {
	pod := cluster.Controller.Spec.Template.Spec
	for key, value := range pod.NodeSelector {
		if labels[key] != value {
			return false
		}
	}
	// Affinity and taints are not evaluated: with an affinity the controller is assumed to stay on its nodes.
	_, isControlPlane := labels["node-role.kubernetes.io/control-plane"]
	return pod.Affinity == nil && !isControlPlane
}

// unregistered reports routers that Rollouts use and that are not in the list.
func unregistered(cluster *facts.Facts, object string, listed []plugin) []Finding {
	var findings []Finding
	for _, router := range []string{facts.HTTPRouter, facts.GatewayRouter} {
		if !cluster.AnyUses(router) || slices.ContainsFunc(listed, func(p plugin) bool { return p.Name == router }) {
			continue
		}
		var others []string
		for _, p := range listed {
			others = append(others, p.Name)
		}
		message := fmt.Sprintf("Rollouts use %s, which is not in the list (%s): traffic routing fails with \"plugin "+
			"%s not configured in configmap\"",
			router, strings.Join(others, ", "), router)
		if cluster.Plugins == nil {
			message = fmt.Sprintf("Rollouts use %s, which is not registered: the ConfigMap does not exist", router)
		}
		findings = append(findings, Finding{
			Code: PluginNotRegistered, Severity: Error, Object: object, Field: pluginsField, Message: message,
			Fix: fmt.Sprintf("add the entry of %s from the release notes to the list "+
				"(docs/how-to/install-plugins.md), and restart the controller", router),
		})
	}
	return findings
}
