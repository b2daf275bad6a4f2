package bundle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

const (
	// requestTimeout bounds one request.
	requestTimeout = 20 * time.Second
	// pageSize is the maximum number of objects of a file.
	pageSize = 500
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
		for _, of := range c.deployments(ctx, cluster) {
			if of.err != nil {
				all = append(all, Entry{Name: of.file, Note: noteOf(of.err)})
			}
			for _, item := range of.outputs() {
				all = append(all, Entry{Name: item.file})
			}
		}
	}
	return append(all, Entry{Name: indexFile})
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

// Write writes the bundle to out, and returns its files. What cannot be read, or not completely, is noted in the entry
// of its file.
func (c *Collector) Write(ctx context.Context, out io.Writer, cluster *facts.Facts) ([]Entry, error) {
	files := newArchive(out, c.options.Limit, c.options.Now)
	var problem error
	add := func(name string, content []byte, err error) {
		problem = errors.Join(problem, files.add(name, content, noteOf(err)))
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
		c.addOutputs(ctx, cluster, add)
	}
	err := files.close()
	return files.entries, errors.Join(problem, err, ctx.Err())
}

// incompleteError is why a file has only a part of what it is for.
type incompleteError string

// Error implements error.
func (e incompleteError) Error() string { return string(e) }

// noteOf returns the note for an error of reading a file; it is empty for nil.
func noteOf(err error) string {
	var incomplete incompleteError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &incomplete):
		return "incomplete: " + incomplete.Error()
	}
	return "not read: " + err.Error()
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

// objects reads a collection without credentials. A collection that the cluster does not serve is empty. If there are
// more objects than a file has, it returns the first ones with an incompleteError.
func (c *Collector) objects(ctx context.Context, path string) ([]byte, error) {
	body, err := c.get(ctx, path, map[string]string{"limit": strconv.Itoa(pageSize)})
	if apierrors.IsNotFound(err) {
		return nil, errNotServed
	}
	if err != nil {
		return nil, err
	}
	content, err := c.redact.object(body)
	if err != nil {
		return nil, err
	}
	return content, completeness(body)
}

// completeness returns an incompleteError if a list has only the first objects of a collection. The API server reports
// the number of the others if no selector is used (ListMeta.remainingItemCount).
func completeness(list []byte) error {
	var page struct {
		Metadata metav1.ListMeta `json:"metadata"`
	}
	if err := json.Unmarshal(list, &page); err != nil {
		return err
	}
	switch {
	case page.Metadata.Continue == "":
		return nil
	case page.Metadata.RemainingItemCount == nil:
		return incompleteError(fmt.Sprintf("only the first %d objects", pageSize))
	}
	return incompleteError(fmt.Sprintf("only the first %d of %d objects", pageSize,
		pageSize+*page.Metadata.RemainingItemCount))
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
