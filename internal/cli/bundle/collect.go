package bundle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

const (
	// requestTimeout bounds one request.
	requestTimeout = 20 * time.Second
	// maxLog and maxLines bound the log of one container.
	maxLog   = 1 << 20
	maxLines = "3000"
	// pageSize is the maximum number of objects of a kind.
	pageSize = "500"
)

// Options select what a bundle contains.
type Options struct {
	// Namespace is that of the applications; empty for all.
	Namespace string
	// Limit is the maximum size in bytes before compression.
	Limit int
	// HasLogs is false to leave out logs and metrics.
	HasLogs bool
	// Now is the time of the files.
	Now time.Time
	// Reports are further files, such as the output of doctor.
	Reports map[string][]byte
}

// source is a collection of objects.
type source struct {
	file, path  string
	isComponent bool // it is read in the namespaces of the components, too
}

// sources returns the collections of a bundle. Secrets are none of them.
func sources() []source {
	return []source{
		{file: "rollouts", path: "apis/argoproj.io/v1alpha1/rollouts"},
		{file: "httpscaledobjects", path: "apis/http.keda.sh/v1alpha1/httpscaledobjects"},
		{file: "interceptorroutes", path: "apis/http.keda.sh/v1beta1/interceptorroutes"},
		{file: "scaledobjects", path: "apis/keda.sh/v1alpha1/scaledobjects"},
		{file: "horizontalpodautoscalers", path: "apis/autoscaling/v2/horizontalpodautoscalers"},
		{file: "httproutes", path: "apis/gateway.networking.k8s.io/v1/httproutes"},
		{file: "grpcroutes", path: "apis/gateway.networking.k8s.io/v1/grpcroutes"},
		{file: "gateways", path: "apis/gateway.networking.k8s.io/v1/gateways"},
		{file: "ingresses", path: "apis/networking.k8s.io/v1/ingresses"},
		{file: "services", path: "api/v1/services", isComponent: true},
		{file: "endpointslices", path: "apis/discovery.k8s.io/v1/endpointslices", isComponent: true},
		{file: "replicasets", path: "apis/apps/v1/replicasets", isComponent: true},
		{file: "deployments", path: "apis/apps/v1/deployments", isComponent: true},
		{file: "pods", path: "api/v1/pods", isComponent: true},
		{file: "events", path: "apis/events.k8s.io/v1/events", isComponent: true},
		{file: "leases", path: "apis/coordination.k8s.io/v1/leases", isComponent: true},
	}
}

// Collector reads a cluster and writes a bundle.
type Collector struct {
	client  *kube.Client
	options Options
	redact  *redactor
}

// New returns a Collector.
func New(client *kube.Client, options Options) *Collector {
	return &Collector{client: client, options: options, redact: newRedactor()}
}

// Plan returns the names of the files that Write would write.
func (c *Collector) Plan(ctx context.Context, cluster *facts.Facts) []Entry {
	var all []Entry
	for _, name := range c.reportNames() {
		all = append(all, Entry{Name: name})
	}
	for _, item := range c.collections(cluster) {
		all = append(all, Entry{Name: item.file})
	}
	if cluster.Plugins != nil {
		all = append(all, Entry{Name: pluginsFile})
	}
	if c.options.HasLogs {
		for _, pod := range c.pods(ctx, cluster) {
			for _, container := range pod.Spec.Containers {
				all = append(all, Entry{Name: logFile(&pod, container.Name)})
			}
		}
	}
	return all
}

// pluginsFile is the file with the controller's list of plugins.
const pluginsFile = "objects/configmap-" + facts.ConfigMapName + ".json"

// reportNames returns the sorted names of the reports.
func (c *Collector) reportNames() []string {
	var names []string
	for name := range c.options.Reports {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Write writes the bundle to out, and returns its files. What cannot be read is noted in the entry of its file.
func (c *Collector) Write(ctx context.Context, out io.Writer, cluster *facts.Facts) ([]Entry, error) {
	files := newArchive(out, c.options.Limit, c.options.Now)
	var problem error
	add := func(name string, content []byte, err error) {
		note := ""
		if err != nil {
			note = "not read: " + err.Error()
		}
		problem = errors.Join(problem, files.add(name, content, note))
	}
	for _, name := range c.reportNames() {
		add(name, []byte(c.redact.text(string(c.options.Reports[name]))), nil)
	}
	for _, item := range c.collections(cluster) {
		content, err := c.objects(ctx, item.path)
		add(item.file, content, err)
	}
	if cluster.Plugins != nil {
		text, err := json.Marshal(cluster.Plugins)
		if err == nil {
			text, err = c.redact.object(text)
		}
		add(pluginsFile, text, err)
	}
	if c.options.HasLogs {
		c.addLogs(ctx, cluster, add)
	}
	index, err := json.MarshalIndent(files.entries, "", "  ")
	add("contents.json", index, err)
	return files.entries, errors.Join(problem, files.close(), ctx.Err())
}

// collections returns the files of objects with their paths.
func (c *Collector) collections(cluster *facts.Facts) []source {
	var all []source
	for _, from := range sources() {
		for _, namespace := range c.namespaces(cluster, from.isComponent) {
			group, resource := from.path[:strings.LastIndex(from.path, "/")], from.path[strings.LastIndex(from.path, "/")+1:]
			item := source{file: "objects/" + from.file + ".json", path: from.path}
			if namespace != "" {
				item.file = "objects/" + namespace + "/" + from.file + ".json"
				item.path = group + "/namespaces/" + namespace + "/" + resource
			}
			all = append(all, item)
		}
	}
	return all
}

// namespaces returns the namespaces that are read; an empty name means all.
func (c *Collector) namespaces(cluster *facts.Facts, hasComponents bool) []string {
	if c.options.Namespace == "" && !hasComponents {
		return []string{""}
	}
	var all []string
	add := func(namespace string) {
		if namespace != "" && !slices.Contains(all, namespace) {
			all = append(all, namespace)
		}
	}
	add(c.options.Namespace)
	if hasComponents {
		for i := range cluster.Rollouts {
			add(cluster.Rollouts[i].Namespace)
		}
		for i := range cluster.HTTPScaledObjects {
			add(cluster.HTTPScaledObjects[i].Namespace)
		}
		for _, deployment := range componentsOf(cluster) {
			add(deployment.Namespace)
		}
	}
	slices.Sort(all)
	return all
}

// objects reads a collection without credentials. A collection that the cluster does not serve is empty.
func (c *Collector) objects(ctx context.Context, path string) ([]byte, error) {
	body, err := c.get(ctx, path, map[string]string{"limit": pageSize})
	if apierrors.IsNotFound(err) {
		return nil, errNotServed
	}
	if err != nil {
		return nil, err
	}
	return c.redact.object(body)
}

// errNotServed reports a kind that the cluster does not have.
var errNotServed = errors.New("the cluster does not have this kind")

// get sends one request.
func (c *Collector) get(ctx context.Context, path string, query map[string]string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return c.client.Do(ctx, kube.Request{Path: strings.Split(path, "/"), Query: query})
}

// componentsOf returns the Deployments of the components that exist.
func componentsOf(cluster *facts.Facts) []*appsv1.Deployment {
	all := []*appsv1.Deployment{
		cluster.Controller, cluster.Interceptor, cluster.Scaler, cluster.Agent, cluster.Operator,
	}
	for _, namespace := range slices.Sorted(maps.Keys(cluster.Proxies)) {
		all = append(all, cluster.Proxies[namespace])
	}
	return slices.DeleteFunc(all, func(deployment *appsv1.Deployment) bool { return deployment == nil })
}

// logFile returns the name of the file with the log of a container.
func logFile(pod *corev1.Pod, container string) string {
	return "logs/" + pod.Namespace + "/" + pod.Name + "_" + container + ".log"
}

// pods returns the Pods of the components, by the selectors of their Deployments.
func (c *Collector) pods(ctx context.Context, cluster *facts.Facts) []corev1.Pod {
	var all []corev1.Pod
	for _, deployment := range componentsOf(cluster) {
		selector := metav1.FormatLabelSelector(deployment.Spec.Selector)
		if deployment.Spec.Selector == nil || strings.HasPrefix(selector, "<") {
			continue // It selects no Pod, or is invalid.
		}
		body, err := c.get(ctx, "api/v1/namespaces/"+deployment.Namespace+"/pods",
			map[string]string{"limit": pageSize, "labelSelector": selector})
		var list struct {
			Items []corev1.Pod `json:"items"`
		}
		// objects/<namespace>/pods.json has the reason.
		if err != nil || json.Unmarshal(body, &list) != nil {
			continue
		}
		all = append(all, list.Items...)
	}
	return all
}

// addLogs adds the logs and the metrics of the components.
func (c *Collector) addLogs(ctx context.Context, cluster *facts.Facts, add func(string, []byte, error)) {
	for _, pod := range c.pods(ctx, cluster) {
		base := "api/v1/namespaces/" + pod.Namespace + "/pods/" + pod.Name
		for _, container := range pod.Spec.Containers {
			text, err := c.get(ctx, base+"/log", map[string]string{
				"container": container.Name, "tailLines": maxLines, "limitBytes": strconv.Itoa(maxLog), "timestamps": "true",
			})
			add(logFile(&pod, container.Name), []byte(c.redact.text(string(text))), err)
			for _, port := range container.Ports {
				if port.Name != "metrics" && port.Name != "http-metrics" {
					continue
				}
				text, err := c.get(ctx, fmt.Sprintf("%s:%d/proxy/metrics", base, port.ContainerPort), nil)
				add("metrics/"+pod.Namespace+"/"+url.PathEscape(pod.Name)+".txt", []byte(c.redact.text(string(text))), err)
			}
		}
	}
}
