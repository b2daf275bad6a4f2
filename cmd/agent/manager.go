package main

import (
	"fmt"
	"maps"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/controllers"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
)

// leaseName is the name of the Lease by which one of the replicas is elected to write.
const leaseName = "kedify-http-agent"

// newManager makes what controllers run in. Ports and signals are not its business.
func newManager(chosen settings, config *rest.Config) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		httpv1alpha1.AddToScheme, apis.AddToScheme,
		corev1.AddToScheme, admissionregistrationv1.AddToScheme, discoveryv1.AddToScheme, networkingv1.AddToScheme,
		appsv1.AddToScheme, policyv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register kinds: %w", err)
		}
	}
	namespaces := map[string]cache.Config{}
	for _, namespace := range chosen.namespaces {
		namespaces[namespace] = cache.Config{}
	}
	kept := controllers.AutowireCache()
	maps.Copy(kept, controllers.InstallerCache())
	caching := cache.Options{
		DefaultNamespaces: namespaces, DefaultTransform: trim, ByObject: kept,
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		Cache:                         caching,
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress:        "0",
		LeaderElection:                true,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       chosen.podNamespace,
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       &chosen.shutdownDeadline,
	})
	if err != nil {
		return nil, fmt.Errorf("controllers: %w", err)
	}
	return mgr, nil
}

// trim takes what the agent has no use for from an object before it is kept in memory. Of an HTTPRoute it has use for
// all of the metadata: it is patched by what it is.
func trim(object any) (any, error) {
	if _, isPatched := object.(*apis.HTTPRoute); isPatched {
		return object, nil
	}
	found, err := meta.Accessor(object)
	if err != nil {
		return object, nil //nolint:nilerr // no object: a tombstone, which stays as it is
	}
	found.SetManagedFields(nil)
	annotations := found.GetAnnotations()
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	return object, nil
}

// missing names the kinds that the API server doesn't know yet, with the remedy.
func (p *process) missing() []string {
	var missing []string
	own := httpv1alpha1.SchemeGroupVersion.WithKind(httpv1alpha1.Kind)
	for _, each := range []struct {
		kind   schema.GroupVersionKind
		remedy string
	}{
		{apis.ScaledObjectKind(), "install KEDA"},
		{own, "install the CustomResourceDefinition of config/crd"},
	} {
		_, err := p.manager.GetRESTMapper().RESTMapping(each.kind.GroupKind(), each.kind.Version)
		if err != nil {
			missing = append(missing, fmt.Sprintf("kind %s: %s (%v)", each.kind.Kind, each.remedy, err))
		}
	}
	return missing
}

// waiting says what readiness waits for.
func (p *process) waiting() []string {
	select {
	case <-p.known:
		if p.settings.webhookAddress != "" && !p.certified() {
			return []string{"the certificate of the webhook"}
		}
		return []string{"the first lists of ScaledObjects and HTTPScaledObjects"}
	default:
		return append(p.missing(), "the controllers")
	}
}
