package autowire_test

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
)

// TestProxiesCanServe has available and terminating proxies.
func TestProxiesCanServe(t *testing.T) {
	t.Parallel()
	const (
		service   = `{spec: {ports: [{port: 8080}]}}`
		installed = `{metadata: {labels: {app.kubernetes.io/managed-by: kedify-http-agent}}, spec: {ports: [{port: 8080}]}}`
		ready     = `[{endpoints: [{conditions: {ready: true}}]}]`
		runs      = `{spec: {replicas: 2}, status: {observedGeneration: 1, replicas: 2, readyReplicas: 1}}`
	)
	tests := map[string]struct {
		service, slices, deployment string
		want                        bool
	}{
		"one of two is ready":             {service, `[{}, {endpoints: [{conditions: {ready: false}}, {conditions: {ready: true}}]}]`, "", true},
		"no condition":                    {service, `[{endpoints: [{}]}]`, "", true},
		"none is ready":                   {service, `[{endpoints: [{conditions: {ready: false}}]}]`, runs, false},
		"no endpoint":                     {service, `[{}]`, runs, false},
		"another port":                    {`{spec: {ports: [{port: 80}]}}`, ready, runs, false},
		"no Service":                      {"", ready, runs, false},
		"the agent's":                     {installed, ready, runs, true},
		"no TLSReady condition":           {installed, ready, `{spec: {replicas: 2}}`, true},
		"one replica by default":          {installed, ready, `{status: {observedGeneration: 1, replicas: 1, readyReplicas: 1}}`, true},
		"scaled to zero":                  {installed, ready, `{spec: {replicas: 0}, status: {observedGeneration: 1, replicas: 2, readyReplicas: 2}}`, false},
		"manual, scaled to zero":          {service, ready, `{spec: {replicas: 0}, status: {observedGeneration: 1, replicas: 2, readyReplicas: 2}}`, false},
		"leftover proxies scaled to zero": {service, ready, `{spec: {replicas: 0}, status: {observedGeneration: 1}}`, true},
		"deleted":                         {installed, ready, "", false},
		"deleted, Pods first":             {installed, ready, `{metadata: {deletionTimestamp: "2026-05-01T12:00:00Z"}, spec: {replicas: 2}, status: {replicas: 2, readyReplicas: 2}}`, false},
		"deleted and new":                 {installed, ready, `{spec: {replicas: 2}, status: {observedGeneration: 1, replicas: 2}}`, false},
		"scaled in, one stays":            {installed, ready, `{spec: {replicas: 1}, status: {observedGeneration: 1, replicas: 2, readyReplicas: 2}}`, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var proxies autowire.Proxies
			read(t, test.service, &proxies.Service)
			read(t, test.deployment, &proxies.Deployment)
			if err := yaml.UnmarshalStrict([]byte(test.slices), &proxies.Endpoints); err != nil {
				t.Fatal(err)
			}
			if got := proxies.CanServe(autowire.ProxyPort); got != test.want {
				t.Errorf("CanServe = %v", got)
			}
			if proxies.CanServe(autowire.TLSPort) {
				t.Error("Serve says that there is one for TLS")
			}
		})
	}
}

// TestGoneProxiesCannotServe has proxies that have exited before their EndpointSlices show it.
func TestGoneProxiesCannotServe(t *testing.T) {
	t.Parallel()
	const both = `[{ports: [{name: https, port: 10443}, {name: http, port: 10080}], endpoints: [{addresses: [10.0.0.1]}, {addresses: [10.0.0.2]}]},
		{ports: [{name: http, port: 10080}], endpoints: [{addresses: [10.0.0.3], conditions: {ready: false}}]}]`
	for name, test := range map[string]struct {
		service, slices string
		ready           []string
		gone            []int // by their places in ready
		want            bool
	}{
		"none of two":      {`{spec: {ports: [{name: http, port: 8080}]}}`, both, []string{"10.0.0.1:10080", "10.0.0.2:10080"}, nil, true},
		"one of two":       {`{spec: {ports: [{name: http, port: 8080}]}}`, both, []string{"10.0.0.1:10080", "10.0.0.2:10080"}, []int{1}, true},
		"both":             {`{spec: {ports: [{name: http, port: 8080}]}}`, both, []string{"10.0.0.1:10080", "10.0.0.2:10080"}, []int{0, 1}, false},
		"over IPv6":        {`{spec: {ports: [{port: 8080}]}}`, `[{ports: [{port: 80}], endpoints: [{addresses: ["fd00:0::1"]}]}]`, []string{"[fd00::1]:80"}, []int{0}, false},
		"by name":          {`{spec: {ports: [{port: 8080}]}}`, `[{ports: [{port: 80}], endpoints: [{addresses: [shop.example.com]}]}]`, nil, nil, true},
		"no port is known": {`{spec: {ports: [{port: 8080}]}}`, `[{endpoints: [{addresses: [10.0.0.1]}]}]`, nil, nil, true},
		"another port":     {`{spec: {ports: [{port: 80}]}}`, both, nil, nil, false},
		"no Service":       {"", both, nil, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var proxies autowire.Proxies
			read(t, test.service, &proxies.Service)
			if err := yaml.UnmarshalStrict([]byte(test.slices), &proxies.Endpoints); err != nil {
				t.Fatal(err)
			}
			ready := proxies.ReadyAddrs(autowire.ProxyPort)
			var got []string
			for _, each := range ready {
				got = append(got, each.String())
			}
			if !slices.Equal(got, test.ready) {
				t.Fatalf("ready are %v, want %v", got, test.ready)
			}
			for _, at := range test.gone {
				proxies.Gone = append(proxies.Gone, ready[at])
			}
			if got := proxies.CanServe(autowire.ProxyPort); got != test.want {
				t.Errorf("CanServe = %v", got)
			}
		})
	}
}

// read decodes an object, unless text is empty.
func read[T corev1.Service | appsv1.Deployment](t *testing.T, text string, into **T) {
	t.Helper()
	if text == "" {
		return
	}
	*into = new(T)
	if err := yaml.UnmarshalStrict([]byte(text), *into); err != nil {
		t.Fatal(err)
	}
}

// TestPortWithoutEndpoints has a port of Service kedify-proxy that its EndpointSlices do not have yet.
func TestPortWithoutEndpoints(t *testing.T) {
	t.Parallel()
	const service = `{spec: {ports: [{name: http, port: 8080}, {name: https, port: 8443}, {name: h2c, port: 8081}]}}`
	for name, test := range map[string]struct {
		ports string
		want  []int32
	}{
		"before the Service changed": {`[{name: http, port: 8080}, {name: https, port: 8443}]`, []int32{8080, 8443}},
		"as installed":               {`[{name: http, port: 8080}, {name: https, port: 8443}, {name: h2c, port: 8080}]`, []int32{8080, 8443, 8081}},
		"one without a name":         {`[{port: 8080}]`, []int32{8080, 8443, 8081}},
		"no ports":                   {`[]`, []int32{8080, 8443, 8081}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var proxies autowire.Proxies
			read(t, service, &proxies.Service)
			text := `[{endpoints: [{addresses: [10.0.0.1]}], ports: ` + test.ports + `}]`
			if err := yaml.UnmarshalStrict([]byte(text), &proxies.Endpoints); err != nil {
				t.Fatal(err)
			}
			var got []int32
			for _, number := range []int32{autowire.ProxyPort, autowire.TLSPort, autowire.HTTP2Port} {
				if proxies.CanServe(number) {
					got = append(got, number)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("ports %v, want %v", got, test.want)
			}
		})
	}
}
