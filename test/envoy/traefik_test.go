package envoy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	kedifyproxy "github.com/kedify/argo-rollouts-plugin/config/kedify-proxy"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/loopback"
	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
)

// wiredIngress returns the Ingress of an app with a TLS port, after the agent's plan is applied.
func wiredIngress(t *testing.T, host string) *networkingv1.Ingress {
	t.Helper()
	ingress := &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: namespace, ResourceVersion: "1"},
		Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{
			Host: host,
			IngressRuleValue: networkingv1.IngressRuleValue{
				HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
					Path: "/", PathType: new(networkingv1.PathTypePrefix), Backend: networkingv1.IngressBackend{
						Service: &networkingv1.IngressServiceBackend{Name: "shop", Port: networkingv1.ServiceBackendPort{Number: 443}},
					},
				}}},
			},
		}}},
	}
	namespaceState := autowire.Namespace{
		Objects: []autowire.Object{autowire.FromIngress(ingress)}, HasProxy: true, HasTLSProxy: true, Now: time.Unix(0, 0),
		Services: map[string]*corev1.Service{"shop": {Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}}}},
		Targets: []autowire.Target{{
			Name: "shop", Hosts: []string{host}, Service: "shop", Port: networkingv1.ServiceBackendPort{Number: 443},
			IsProgrammed: true,
			Kinds:        []trigger.AutowireKind{trigger.AutowireIngress}, Certificate: autowire.CertificateActive,
		}},
	}
	plan, err := namespaceState.Plan()
	if err != nil || len(plan.Changes) != 1 {
		t.Fatalf("%+v, %v", plan, err)
	}
	before, beforeErr := json.Marshal(ingress)
	patch, patchErr := json.Marshal(plan.Changes[0].Patch)
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil || beforeErr != nil || patchErr != nil {
		t.Fatal(err, beforeErr, patchErr)
	}
	after, err := operations.Apply(before)
	if err != nil {
		t.Fatal(err)
	}
	wired := new(networkingv1.Ingress)
	if err := json.Unmarshal(after, wired); err != nil {
		t.Fatal(err)
	}
	return wired
}

// proxyService returns the Service kedify-proxy of config/kedify-proxy, with an endpoint at address.
func proxyService(t *testing.T, address netip.AddrPort) (*corev1.Service, *discoveryv1.EndpointSlice) {
	t.Helper()
	text, err := kedifyproxy.Files.ReadFile("services.yaml")
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n---\n")
	service := new(corev1.Service)
	if err := yaml.UnmarshalStrict([]byte(first), service); err != nil {
		t.Fatal(err)
	}
	service.Namespace, service.Spec.ClusterIP = namespace, "192.0.2.10"
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: service.Name, Namespace: namespace, Labels: map[string]string{discoveryv1.LabelServiceName: service.Name},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{address.Addr().String()}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}},
		},
	}
	for _, port := range service.Spec.Ports {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: new(port.Name), Port: new(int32(address.Port()))})
	}
	return service, slice
}

// serveObjects starts an API server that serves constant objects, by resource.
func serveObjects(t *testing.T, all map[string]runtime.Object) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("sendInitialEvents") != "" { // Clients fall back to a list request.
			w.WriteHeader(http.StatusUnprocessableEntity)
			_ = json.NewEncoder(w).Encode(metav1.Status{
				Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity,
			})
			return
		}
		if r.URL.Query().Get("watch") != "" {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
			case <-ctx.Done():
			}
			return
		}
		path := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
		items := []runtime.Object{}
		if object, ok := all[path[len(path)-1]]; ok {
			items = append(items, object)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"metadata": map[string]any{"resourceVersion": "1"}, "items": items})
	}))
	t.Cleanup(func() {
		cancel()
		server.Close()
	})
	return server.URL
}

// startTraefik starts the Traefik of TRAEFIK_BIN with objects, and returns the address of its entry point.
func startTraefik(t *testing.T, all map[string]runtime.Object) string {
	t.Helper()
	binary := os.Getenv("TRAEFIK_BIN")
	if binary == "" {
		t.Fatal("TRAEFIK_BIN is not set: run `make test-parts`, or set it to the path of a traefik binary of version 3")
	}
	address := netip.AddrPortFrom(loopback.Address(), 18000).String()
	program.Run(t, binary,
		"--providers.kubernetesingress=true", "--providers.kubernetesingress.endpoint="+serveObjects(t, all),
		"--providers.kubernetesingress.token=none",
		// Traefik connects to Pods by IP address, which no certificate contains.
		"--serverstransport.insecureskipverify=true",
		"--entrypoints.web.address="+address, "--global.checknewversion=false", "--global.sendanonymoususage=false")
	return address
}

// TestIngressControllerWithoutSNI makes Traefik connect to the proxies over TLS, because of the port of Service
// kedify-proxy that the agent writes. Traefik sends no SNI, so it receives the oldest object's certificate; the Host
// header selects the route.
func TestIngressControllerWithoutSNI(t *testing.T) {
	t.Parallel()
	objects, secrets := tenants(t)
	resources := withTLS(t, namespace, objects, secrets...)
	s := serve(t, "DELTA_GRPC", resources)
	s.await(t, resources)
	address := s.tlsAddress(t)
	service, slice := proxyService(t, netip.MustParseAddrPort(address))
	traefik := startTraefik(t, map[string]runtime.Object{
		"ingresses": wiredIngress(t, "bank.example.org"), "services": service, "endpointslices": slice,
	})
	client := &http.Client{Timeout: await.Patience()}
	get := func() (echoed, error) {
		var got echoed
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+traefik+"/", http.NoBody)
		if err != nil {
			return got, err
		}
		request.Host = "bank.example.org"
		response, err := client.Do(request)
		if err != nil {
			return got, err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return got, fmt.Errorf("status %s", response.Status)
		}
		return got, json.NewDecoder(response.Body).Decode(&got)
	}
	var got echoed
	var last error
	await.True(t, "Traefik forwards to the app", func() bool {
		got, last = get()
		return last == nil
	})
	if got.Backend != "bank" || got.Header.Get("X-Forwarded-Proto") != "https" {
		t.Errorf("%+v", got)
	}
	for range 100 {
		if _, err := get(); err != nil {
			t.Fatalf("a request fails: %v", err)
		}
	}
}
