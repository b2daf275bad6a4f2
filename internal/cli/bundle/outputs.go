package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

const (
	// maxLog is the maximum number of bytes of the log of one container, maxLines that of its lines.
	maxLog   = 1 << 20
	maxLines = 3000
	// maxRead is the maximum number of bytes of maxLines that are read. The kubelet returns the oldest of them.
	maxRead = 8 * maxLog
)

// output is a log or the metrics of a container.
type output struct {
	file, path string
	query      map[string]string // nil for metrics
}

// deploymentPods are the Pods of a component.
type deploymentPods struct {
	file string // the entry for err
	pods []corev1.Pod
	err  error // why Pods are missing
}

// deployments returns the Pods of each component, by the selectors of their Deployments. A Pod that two Deployments
// select belongs to the first one.
func (c *Collector) deployments(ctx context.Context, cluster *facts.Facts) []deploymentPods {
	var all []deploymentPods
	seen := map[string]bool{}
	for _, deployment := range componentsOf(cluster) {
		selector := metav1.FormatLabelSelector(deployment.Spec.Selector)
		if deployment.Spec.Selector == nil || strings.HasPrefix(selector, "<") {
			continue // It selects no Pod, or is invalid.
		}
		of := deploymentPods{file: "logs/" + deployment.Namespace + "/" + deployment.Name}
		body, err := c.get(ctx, "api/v1/namespaces/"+deployment.Namespace+"/pods",
			map[string]string{"limit": strconv.Itoa(pageSize), "labelSelector": selector})
		var list corev1.PodList
		if err == nil {
			err = json.Unmarshal(body, &list)
		}
		if of.err = err; err == nil {
			of.err = completeness(body)
		}
		for i := range list.Items {
			if key := list.Items[i].Namespace + "/" + list.Items[i].Name; !seen[key] {
				seen[key] = true
				of.pods = append(of.pods, list.Items[i])
			}
		}
		all = append(all, of)
	}
	return all
}

// outputs returns the logs and the metrics of the containers. Their files have different names: two containers of a Pod
// may both have a port with the name metrics.
func (d *deploymentPods) outputs() []output {
	var all []output
	for i := range d.pods {
		pod := &d.pods[i]
		base := "api/v1/namespaces/" + pod.Namespace + "/pods/" + pod.Name
		for _, container := range pod.Spec.Containers {
			file := pod.Namespace + "/" + pod.Name + "_" + container.Name
			all = append(all, output{"logs/" + file + ".log", base + "/log", map[string]string{
				"container": container.Name, "tailLines": strconv.Itoa(maxLines), "limitBytes": strconv.Itoa(maxRead),
				"timestamps": "true",
			}})
			for _, port := range container.Ports {
				if port.Name == "metrics" || port.Name == "http-metrics" {
					all = append(all, output{
						fmt.Sprintf("metrics/%s_%d.txt", file, port.ContainerPort),
						fmt.Sprintf("%s:%d/proxy/metrics", base, port.ContainerPort), nil,
					})
				}
			}
		}
	}
	return all
}

// addOutputs adds the logs and the metrics of the components.
func (c *Collector) addOutputs(ctx context.Context, cluster *facts.Facts, add func(string, []byte, error)) {
	for _, of := range c.deployments(ctx, cluster) {
		if of.err != nil {
			add(of.file, nil, of.err)
		}
		for _, item := range of.outputs() {
			text, err := c.get(ctx, item.path, item.query)
			if err == nil && item.query != nil {
				text, err = lastLines(text)
			}
			add(item.file, []byte(c.redact.text(string(text))), err)
		}
	}
}

// lastLines cuts a log to its last maxLog bytes, at the start of a line. If the log may have had more lines, it returns
// an incompleteError with the rest.
func lastLines(log []byte) ([]byte, error) {
	lines, size := bytes.Count(log, []byte("\n")), len(log)
	if size > maxLog {
		log = log[size-maxLog:]
		log = log[bytes.IndexByte(log, '\n')+1:]
	}
	switch {
	case size >= maxRead:
		return log, incompleteError(fmt.Sprintf("the last %d lines have more than %d bytes, of which the newest are missing",
			maxLines, maxRead))
	case size > maxLog:
		return log, incompleteError(fmt.Sprintf("only the last %d bytes", len(log)))
	case lines >= maxLines:
		return log, incompleteError(fmt.Sprintf("only the last %d lines", maxLines))
	}
	return log, nil
}
