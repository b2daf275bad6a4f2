package main

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/interceptorroute"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// object is an object in a list.
type object interface {
	runtime.Object
	metav1.Object
}

// streamed lists the objects of a kind, and trims each before it decodes the next one: a tenant can make each as large
// as the API server accepts. InterceptorRoutes are converted. It watches as any other source.
type streamed struct {
	cache.ListerWatcherWithContext

	client                      rest.Interface
	resource, namespace, labels string
	newObject                   func() object
	// maxBytes is the bound of ingest.NewListTrimmer.
	maxBytes int
}

// listWatch returns a list and watch of the objects with a label selector, of all objects if it is empty.
func listWatch(client rest.Interface, newObject func() object, resource, namespace, labels string) streamed {
	return streamed{
		cache.NewFilteredListWatchFromClient(client, resource, namespace,
			func(options *metav1.ListOptions) { options.LabelSelector = labels }),
		client, resource, namespace, labels, newObject, 0,
	}
}

// listPage is the number of objects in one page of a list. A list of everything takes the API server a multiple of its
// size in memory, for each replica that starts.
const listPage = 500

// ListWithContext implements cache.ListerWithContext. A list of the newest version has pages, which are all of one
// version. A list that may have any version from a given one on has none: the API server answers it from its cache.
func (s streamed) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	options.LabelSelector = s.labels
	if options.ResourceVersion == "" {
		options.Limit = listPage
	}
	list, trimmer := new(corev1.List), ingest.NewListTrimmer(s.maxBytes)
	for {
		page, err := s.readPage(ctx, options, func(read object) {
			trimmer.Trim(read)
			list.Items = append(list.Items, runtime.RawExtension{Object: read})
		})
		if err != nil {
			return nil, err
		}
		if options.Continue = page.Continue; options.Continue == "" {
			list.ListMeta = page
			return list, nil
		}
	}
}

// readPage requests one page of a list, and calls add for each object.
func (s streamed) readPage(
	ctx context.Context, options metav1.ListOptions, add func(object),
) (page metav1.ListMeta, err error) {
	body, err := s.client.Get().NamespaceIfScoped(s.namespace, s.namespace != "").Resource(s.resource).
		VersionedParams(&options, metav1.ParameterCodec).SetHeader("Accept", runtime.ContentTypeJSON).Stream(ctx)
	if err != nil {
		return page, err
	}
	defer body.Close()
	return kube.DecodePage(body, func(item []byte) error {
		read := s.newObject()
		if err := json.Unmarshal(item, read); err != nil {
			return err
		}
		if route, ok := read.(*httpv1beta1.InterceptorRoute); ok {
			read = interceptorroute.Convert(route)
		}
		add(read)
		return nil
	})
}
