package proxies

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

const (
	// interceptorCluster is the line of the bootstrap that the clusters of the interceptor begin with, and only these.
	interceptorCluster = "      type: STRICT_DNS\n"
	// caFile is the key of the CAs in the ConfigMap, and caSecret the name of the resource in it. Envoy reads the file
	// again when it changes: the bootstrap's hash, whose change replaces the Pods, does not cover it.
	caFile, caSecret = "interceptor-ca.json", "interceptor-ca"
	// bootstrapFolder is where the Deployment mounts the ConfigMap.
	bootstrapFolder = "/etc/envoy"
	// interceptorProtocol is the line of the bootstrap before which the clusters of the interceptor get filters.
	interceptorProtocol = "          explicit_http_config:\n"
	// tokenVolume is the name of the volume with the Pod's token for the interceptor, tokenFolder is where it is mounted,
	// and tokenFile is the token's file in it. tokenAudience is the only audience that accepts the token, and the kubelet
	// renews it before its lifetime tokenSeconds ends.
	tokenVolume, tokenFolder, tokenFile = "interceptor-token", "/var/run/secrets/kedify", "token" //nolint:gosec // names
	tokenAudience, tokenSeconds         = "kedify-http-interceptor", 3600                         //nolint:gosec // a name
)

// authenticationRetry is the pause after which the agent looks again for Pods without a token.
const authenticationRetry = 5 * time.Second

// awaitsTokens reports whether the fleet becomes strict after its last proxy without a token has ended.
func (n *Namespace) awaitsTokens() bool { return n.Settings.CA != nil && n.authentication() == "" }

// NeedsPods reports whether the plan depends on HasPlaintext: the fleet may become strict now.
func (n *Namespace) NeedsPods() bool { return n.awaitsTokens() && n.isRolledOut() }

// isStrict reports whether the interceptor may serve only proxies with a token: after the last proxy without one has
// ended, so that an upgrade cuts off none. A fleet that someone has set to permissive stays so.
func (n *Namespace) isStrict() bool {
	return n.Settings.CA != nil && n.authentication() != httpv1alpha1.ProxyAuthenticationPermissive &&
		(n.authentication() != "" || n.isRolledOut() && !n.HasPlaintext)
}

// authentication returns the annotation of the existing Service, "" for none.
func (n *Namespace) authentication() string {
	for _, object := range n.Existing {
		if object.GetKind() == "Service" && object.GetName() == Service {
			return object.GetAnnotations()[httpv1alpha1.AnnotationProxyAuthentication]
		}
	}
	return ""
}

// isRolledOut reports whether the Deployment starts only proxies with a token. It does so before it exists.
func (n *Namespace) isRolledOut() bool {
	for _, object := range n.Existing {
		if object.GetKind() != "Deployment" {
			continue
		}
		var deployment appsv1.Deployment
		if runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &deployment) != nil {
			return false
		}
		status := deployment.Status
		return HasToken(deployment.Spec.Template.Spec) && status.ObservedGeneration >= deployment.Generation &&
			status.Replicas == status.UpdatedReplicas
	}
	return true
}

// HasToken reports whether a proxy has a token for the interceptor.
func HasToken(pod corev1.PodSpec) bool {
	return slices.ContainsFunc(pod.Volumes, func(volume corev1.Volume) bool { return volume.Name == tokenVolume })
}

// interceptorName returns the DNS name that the interceptor's certificate must have.
func (s Settings) interceptorName() string {
	return interceptorHost + cmp.Or(s.InterceptorNamespace, httpv1alpha1.DefaultInterceptorNamespace) + ".svc"
}

// transportSocket returns the lines of the bootstrap that make a cluster of the interceptor use TLS.
func (s Settings) transportSocket() string {
	return fmt.Sprintf(`      transport_socket:
        name: envoy.transport_sockets.tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
          sni: %s
          common_tls_context:
            alpn_protocols: [h2]
            tls_params: {tls_minimum_protocol_version: TLSv1_3, tls_maximum_protocol_version: TLSv1_3}
            validation_context_sds_secret_config:
              name: %s
              sds_config:
                resource_api_version: V3
                path_config_source: {path: %s/%s, watched_directory: {path: %s}}
`, s.interceptorName(), caSecret, bootstrapFolder, caFile, bootstrapFolder)
}

// addCA adds the CAs to the ConfigMap with the bootstrap, as a resource of Envoy's secret discovery service, with the
// name that the interceptor's certificate must have.
func (s Settings) addCA(object *unstructured.Unstructured) error {
	text, err := json.Marshal(map[string]any{"resources": []any{map[string]any{
		"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
		"name":  caSecret,
		"validation_context": map[string]any{
			"trusted_ca": map[string]any{"inline_string": string(s.CA)},
			"match_typed_subject_alt_names": []any{map[string]any{
				"san_type": "DNS", "matcher": map[string]any{"exact": s.interceptorName()},
			}},
		},
	}}})
	if err != nil {
		return err
	}
	return unstructured.SetNestedField(object.Object, string(text), "data", caFile)
}

// tokenFilters returns the lines of the bootstrap that make a cluster of the interceptor send the Pod's token. Envoy
// reads the file again when the kubelet replaces it.
func tokenFilters() string {
	return fmt.Sprintf(`          http_filters:
            - name: envoy.filters.http.header_mutation
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation
                mutations:
                  formatters:
                    - name: envoy.formatter.file_content
                      typed_config: {"@type": type.googleapis.com/envoy.extensions.formatter.file_content.v3.FileContent}
                  request_mutations:
                    - append:
                        header: {key: authorization, value: "Bearer %%FILE_CONTENT(%s/%s:%s)%%"}
                        append_action: OVERWRITE_IF_EXISTS_OR_ADD
            - name: envoy.filters.http.upstream_codec
              typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.upstream_codec.v3.UpstreamCodec}
`, tokenFolder, tokenFile, tokenFolder)
}

// mountToken adds the volume with the Pod's token to the Deployment, and mounts it in the container.
func mountToken(object *unstructured.Unstructured, container map[string]any) error {
	spec := []string{"spec", "template", "spec"}
	volumes, _, err := unstructured.NestedSlice(object.Object, append(spec, "volumes")...)
	if err != nil {
		return err
	}
	mounts, _, err := unstructured.NestedSlice(container, "volumeMounts")
	if err != nil {
		return err
	}
	container["volumeMounts"] = append(mounts, map[string]any{
		"name": tokenVolume, "mountPath": tokenFolder, "readOnly": true,
	})
	token := map[string]any{"audience": tokenAudience, "expirationSeconds": int64(tokenSeconds), "path": tokenFile}
	return unstructured.SetNestedSlice(object.Object, append(volumes, map[string]any{
		"name":      tokenVolume,
		"projected": map[string]any{"sources": []any{map[string]any{"serviceAccountToken": token}}},
	}), append(spec, "volumes")...)
}
