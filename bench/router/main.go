// Command router measures the router kedify/http by package routerbench: the bare client sends PATCHes of the same
// annotations to the same HTTPScaledObjects, over one connection.
//
// It omits the controller's own work, a network between plugin and API server, and everything after the write (the
// interceptor's work).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"path/filepath"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/interceptor"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/routerbench"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/stopwatch"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
)

const (
	// collection is the REST path of the HTTPScaledObjects.
	collection = "/apis/" + httpv1alpha1.Group + "/" + httpv1alpha1.Version + "/namespaces/" + routerbench.Namespace +
		"/" + httpv1alpha1.Resource
	// atOnce is the number of objects that are created, or reported on, in parallel.
	atOnce = 8
)

func main() {
	routerbench.Main(routerbench.Benchmark{
		Name: "bench/router", Plugin: httpso.Type, Command: "rollouts-plugin-kedify", Resource: httpv1alpha1.Resource,
		Subject: &scaledObjects{},
	})
}

// scaledObjects are HTTPScaledObjects, one per Rollout.
type scaledObjects struct {
	routerbench.Clients

	objects, calls int
}

// Flags adds --objects and --calls.
func (s *scaledObjects) Flags(flags *flag.FlagSet, _ func(string) string) {
	flags.IntVar(&s.objects, "objects", 1000, "`number` of HTTPScaledObjects")
	flags.IntVar(&s.calls, "calls", 400, "`number` of calls of each kind in a round")
}

// Check returns an error if there are too few objects.
func (s *scaledObjects) Check() error {
	if s.calls > s.objects || s.calls < 1 {
		return fmt.Errorf("--calls is %d: 1 to --objects, which is %d", s.calls, s.objects)
	}
	return nil
}

// Workload describes the number of objects.
func (s *scaledObjects) Workload() string {
	return fmt.Sprintf("%d HTTPScaledObjects, %d calls of each kind in a round", s.objects, s.calls)
}

// withoutProxy is the case without a Ready proxy, in which no weight can be verified. A call that waited for a proxy
// would block all of the controller's workers.
const withoutProxy = "10 workers, no Ready proxy"

// Cases are one caller, and as many as the controller has, with and without a proxy.
func (s *scaledObjects) Cases() []routerbench.Case {
	one := routerbench.Case{Name: "1 worker", Workers: 1, Rollouts: s.objects, Calls: s.calls, Objects: 1, MinResync: 0.5}
	ten := one
	ten.Name, ten.Workers, ten.Kill = "10 workers", 10, true
	none := ten
	none.Name, none.Kill = withoutProxy, false
	return []routerbench.Case{one, ten, none}
}

// name returns the name of an object and its Rollout.
func name(n int) string { return fmt.Sprintf("web-%05d", n) }

// Rollout returns the Rollout of object n.
func (*scaledObjects) Rollout(_ routerbench.Case, n int) *v1alpha1.Rollout {
	return routerbench.NewRollout(name(n), httpso.Type, json.RawMessage(`{"httpScaledObjectName":"`+name(n)+`"}`))
}

// Setup creates the objects, and the interceptors' Lease.
func (s *scaledObjects) Setup(ctx context.Context, clients routerbench.Clients, repo string) error {
	s.Clients = clients
	if err := apiserver.Apply(ctx, s.Admin, metav1.NamespaceDefault, apiserver.RolloutsRole); err != nil {
		return err
	}
	err := apiserver.ApplyFiles(ctx, s.Admin, metav1.NamespaceDefault,
		filepath.Join(repo, "config/crd/http.keda.sh_httpscaledobjects.yaml"), filepath.Join(repo, "config/argo-rollouts/rbac.yaml"))
	if err != nil {
		return err
	}
	for _, name := range []string{routerbench.Namespace, httpv1alpha1.DefaultInterceptorNamespace} {
		if err := apiserver.CreateNamespace(ctx, s.Admin, name); err != nil {
			return err
		}
	}
	if _, err := stopwatch.Calls(atOnce, s.objects, func(n int) error { return s.create(ctx, n) }); err != nil {
		return err
	}
	return interceptor.KeepLease(ctx, s.Admin)
}

// create creates object n.
func (s *scaledObjects) create(ctx context.Context, n int) error {
	return apiserver.Create(ctx, s.Admin, collection, httpv1alpha1.HTTPScaledObject{
		TypeMeta:   metav1.TypeMeta{APIVersion: httpv1alpha1.SchemeGroupVersion.String(), Kind: httpv1alpha1.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: name(n), Labels: map[string]string{"app": name(n)}},
		Spec: httpv1alpha1.HTTPScaledObjectSpec{
			Hosts: []string{name(n) + ".shop.test"}, PathPrefixes: []string{"/"},
			ScaleTargetRef: httpv1alpha1.ScaleTargetRef{
				Name: name(n), APIVersion: "argoproj.io/v1alpha1", Kind: "Rollout", Service: name(n) + "-stable", Port: 80,
			},
		},
	})
}

// BareWrites changes the two annotations.
func (s *scaledObjects) BareWrites(
	ctx context.Context, of routerbench.Case, weight uint32,
) (write func(n int) error, err error) {
	return func(n int) error {
		annotations := map[string]any{
			httpv1alpha1.AnnotationWeightedBackends: weightsAnnotation(name(n), weight),
			httpv1alpha1.AnnotationWeightedBackendsOwner: routerbench.Namespace + "/" + name(n) + " " +
				string(s.Rollout(of, n).UID),
		}
		change := map[string]any{"metadata": map[string]any{"annotations": annotations}}
		return apiserver.Patch(ctx, s.Bare, collection+"/"+name(n), httpso.FieldManager, change)
	}, nil
}

// CheckWeights reads the annotation of each object.
func (s *scaledObjects) CheckWeights(ctx context.Context, _ routerbench.Case, rollouts []int, weight uint32) error {
	_, err := stopwatch.Calls(atOnce, len(rollouts), func(n int) error {
		named := name(rollouts[n])
		text, err := s.Admin.Get().AbsPath(collection + "/" + named).DoRaw(ctx)
		if err != nil {
			return err
		}
		var found metav1.PartialObjectMetadata
		if err := json.Unmarshal(text, &found); err != nil {
			return err
		}
		annotation := found.Annotations[httpv1alpha1.AnnotationWeightedBackends]
		if annotation != weightsAnnotation(named, weight) {
			return fmt.Errorf("HTTPScaledObject %s: %w: %q", named, errWeight, annotation)
		}
		return nil
	})
	return err
}

// errWeight is returned if an object has another weight than the requested one.
var errWeight = errors.New("another weight")

// weightsAnnotation returns the text of the annotation with a weight.
func weightsAnnotation(named string, weight uint32) string {
	return split.Format([]split.Backend{
		{Service: named + "-stable", Weight: 100 - weight}, {Service: named + "-canary", Weight: weight},
	})
}

// ReportStatus reports that one proxy has ACKed the absence of the annotation, or that there is no proxy.
func (s *scaledObjects) ReportStatus(ctx context.Context, testCase routerbench.Case, rollouts []int) error {
	proxies := int32(1)
	if testCase.Name == withoutProxy {
		proxies = 0
	}
	_, err := stopwatch.Calls(atOnce, len(rollouts), func(n int) error {
		return interceptor.Report(ctx, s.Admin, collection+"/"+name(rollouts[n]), proxies)
	})
	return err
}
