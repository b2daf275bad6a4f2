package build

import (
	"path/filepath"
	"strings"
	"testing"
)

func folder(name string) string { return filepath.Join("..", "components", name) }

// Image names match the versions of their content.
func TestVersionsAreThoseOfTheModules(t *testing.T) {
	tests := []struct{ component, module, want string }{
		{"cluster", "k8s.io/kubernetes", KubernetesVersion},
		{"cluster", "github.com/argoproj/argo-rollouts", ArgoRolloutsVersion},
		{"argo-rollouts-v1.9.1", "github.com/argoproj/argo-rollouts", OldRolloutsVersion},
		{"cluster", "github.com/coredns/coredns", CoreDNSVersion},
		{"envoy-gateway", "github.com/envoyproxy/gateway", EnvoyGatewayVersion},
		{"gateway-api", "sigs.k8s.io/gateway-api", GatewayAPIVersion},
		{"keda", "github.com/kedacore/keda/v2", KEDAVersion},
		{"contour", "github.com/projectcontour/contour", ContourVersion},
		{"http-add-on", "github.com/kedacore/http-add-on", HTTPAddOnVersion},
		{"istio", "istio.io/istio", IstioVersion},
		{"argo-cd", "github.com/argoproj/argo-cd/v3", ArgoCDVersion},
	}
	for _, version := range PatchedRolloutsVersions() {
		tests = append(tests,
			struct{ component, module, want string }{"argo-rollouts-" + version, "github.com/argoproj/argo-rollouts", version})
	}
	for _, version := range OtherKEDAVersions() {
		tests = append(tests,
			struct{ component, module, want string }{KEDAComponentOf(version), "github.com/kedacore/keda/v2", version})
	}
	for _, version := range OtherKubernetesVersions() {
		tests = append(tests, struct{ component, module, want string }{"kubernetes-" + version, "k8s.io/kubernetes", version})
	}
	for _, tt := range tests {
		got, err := ModuleVersion(folder(tt.component), tt.module)
		if err != nil || got != tt.want {
			t.Errorf("%s is %s (%v), want %s", tt.module, got, err, tt.want)
		}
	}
}

// Kubernetes v1.x.y consists of the staging modules v0.x.y.
func TestKubernetesIsOneSetOfModules(t *testing.T) {
	folders := []string{"cluster"}
	for _, version := range OtherKubernetesVersions() {
		folders = append(folders, "kubernetes-"+version)
	}
	for _, name := range folders {
		version, err := ModuleVersion(folder(name), "k8s.io/kubernetes")
		if err != nil {
			t.Fatal(err)
		}
		want := "v0." + strings.TrimPrefix(version, "v1.")
		for _, staging := range []string{
			"api", "apimachinery", "apiserver", "client-go", "component-base", "cri-client", "kube-proxy", "kubelet",
		} {
			if got, err := ModuleVersion(folder(name), "k8s.io/"+staging); err != nil || got != want {
				t.Errorf("%s: k8s.io/%s is %s (%v); k8s.io/kubernetes is %s", name, staging, got, err, version)
			}
		}
	}
}
