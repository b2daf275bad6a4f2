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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/controllers"
)

// leaseName is the name of the Lease for the leader election of the replicas.
const leaseName = "kedify-http-agent"

// newManager creates the controller manager. It opens no ports and handles no signals.
func newManager(chosen settings, config *rest.Config) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		httpv1alpha1.AddToScheme, httpv1beta1.AddToScheme, apis.AddToScheme,
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
	byObject := controllers.AutowireCache()
	maps.Copy(byObject, controllers.ProxyCache())
	caching := cache.Options{
		DefaultNamespaces: namespaces, DefaultTransform: controllers.Trim(), ByObject: byObject,
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
		return nil, fmt.Errorf("create the controller manager: %w", err)
	}
	return mgr, nil
}

// missingKinds returns the required kinds that the API server does not serve yet, each with a fix.
func (p *process) missingKinds() []string {
	var missingKinds []string
	httpScaledObject := httpv1alpha1.SchemeGroupVersion.WithKind(httpv1alpha1.Kind)
	for _, required := range []struct {
		kind schema.GroupVersionKind
		fix  string
	}{
		{apis.ScaledObjectKind(), "install KEDA"},
		{httpScaledObject, "install the CustomResourceDefinition of config/crd"},
	} {
		_, err := p.manager.GetRESTMapper().RESTMapping(required.kind.GroupKind(), required.kind.Version)
		if err != nil {
			missingKinds = append(missingKinds, fmt.Sprintf("kind %s: %s (%v)", required.kind.Kind, required.fix, err))
		}
	}
	return missingKinds
}

// pendingComponents returns what readiness waits for.
func (p *process) pendingComponents() []string {
	select {
	case <-p.installed:
		if p.settings.webhookAddress != "" && !p.hasCertificate() {
			return []string{"the certificate of the webhook"}
		}
		return []string{"the first lists of ScaledObjects and HTTPScaledObjects"}
	default:
		return append(p.missingKinds(), "the controllers")
	}
}
