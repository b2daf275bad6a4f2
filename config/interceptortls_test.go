package config_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/identity"
)

// TestTLSToTheInterceptorIsOn: no component of the manifests turns TLS off, and the scaler has a token that the
// interceptor accepts. The proxies of config/kedify-proxy connect without TLS, as those of other charts.
func TestTLSToTheInterceptorIsOn(t *testing.T) {
	t.Parallel()
	for name, c := range components(t) {
		container := c.deployment.Spec.Template.Spec.Containers[0]
		for _, argument := range container.Args {
			if argument == "--interceptor-tls-secret=" || argument == "--interceptor-ca=" {
				t.Errorf("%s: %s", name, argument)
			}
		}
		volumes := c.deployment.Spec.Template.Spec.Volumes
		at := slices.IndexFunc(volumes, func(volume corev1.Volume) bool { return volume.Projected != nil })
		if hasToken := at >= 0; hasToken != (name == "scaler") {
			t.Errorf("%s: has a token: %t", name, hasToken)
		}
		if at < 0 {
			continue
		}
		token := volumes[at].Projected.Sources[0].ServiceAccountToken
		mounted := slices.ContainsFunc(container.VolumeMounts, func(mount corev1.VolumeMount) bool {
			return mount.Name == volumes[at].Name && mount.MountPath+"/"+token.Path == "/var/run/secrets/kedify/token"
		})
		if token.Audience != identity.Audience || !mounted {
			t.Errorf("%s: %+v, mounted %t", name, token, mounted)
		}
	}
}
