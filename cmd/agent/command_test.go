package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/test/kit/commandline"
)

func TestSettings(t *testing.T) {
	standard := settings{
		scalerAddress: "keda-add-ons-http-external-scaler.keda:9090",
		autowire:      true, autowireCoolDown: 30 * time.Second, restoreBackends: true, referenceGrants: true,
		installProxies: true, proxyReplicas: 1, proxyRemovalDelay: time.Minute,
		webhookAddress: ":9443", webhookSecret: "kedify-http-agent-webhook", webhookName: "kedify-http-agent",
		healthAddress: ":8081", metricsAddress: ":2223", podNamespace: "keda",
		shutdownDelay: 3 * time.Second, shutdownDeadline: 15 * time.Second, logFormat: "json", logLevel: "info",
		interceptorTLSSecret: "kedify-http-interceptor-tls",
	}
	changed := func(change func(*settings)) settings {
		s := standard
		change(&s)
		return s
	}
	tests := map[string]struct {
		environment map[string]string
		args        []string
		want        settings
	}{
		"the defaults are those of config/agent": {want: standard},
		"flags": {
			args: []string{"--namespaces=a,b", "--webhook-address=", "--webhook-names", "localhost"},
			want: changed(func(s *settings) {
				s.namespaces, s.webhookAddress, s.webhookNames = []string{"a", "b"}, "", []string{"localhost"}
			}),
		},
		"the environment stands in for flags, which count before it": {
			environment: map[string]string{
				"KEDIFY_AGENT_SCALER_ADDRESS": "a.b:1", "POD_NAMESPACE": "elsewhere", "KEDIFY_AGENT_LOG_LEVEL": "warn",
				"KEDIFY_AGENT_AUTOWIRE": "false",
			},
			args: []string{"--log-level=debug"},
			want: changed(func(s *settings) {
				s.scalerAddress, s.podNamespace, s.logLevel, s.autowire = "a.b:1", "elsewhere", "debug", false
			}),
		},
		"the address of the Pod": {
			environment: map[string]string{"POD_IP": "2001:db8::1"},
			want:        changed(func(s *settings) { s.podIP = "2001:db8::1" }),
		},
		"no permission for routes": {
			args: []string{"--autowire=false", "--restore-backends=false", "--reference-grants=false"},
			want: changed(func(s *settings) { s.autowire, s.restoreBackends, s.referenceGrants = false, false, false }),
		},
		"TLS to the interceptor": {
			environment: map[string]string{"KEDIFY_AGENT_INTERCEPTOR_TLS_SECRET": "tls"},
			args:        []string{"--external-tls-secret"},
			want:        changed(func(s *settings) { s.interceptorTLSSecret, s.externalTLSSecret = "tls", true }),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, output, err := commandline.Execute(t, newCommand, test.environment, test.args...)
			if err != nil {
				t.Fatalf("%v\n%s", err, output)
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(settings{})); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInvalidSettings(t *testing.T) {
	tests := map[string]struct {
		environment map[string]string
		args        []string
		wantMessage string
	}{
		"a flag that does not exist": {args: []string{"--port", "1"}, wantMessage: "unknown flag: --port"},
		"a value in the environment": {
			environment: map[string]string{"KEDIFY_AGENT_SHUTDOWN_DELAY": "soon"},
			wantMessage: "environment variable KEDIFY_AGENT_SHUTDOWN_DELAY",
		},
		"a negative time": {args: []string{"--shutdown-delay=-1s"}, wantMessage: "--shutdown-delay: -1s is negative"},
		"an address without a port": {
			args: []string{"--scaler-address=scaler"}, wantMessage: `--scaler-address: "scaler" has no host or no port`,
		},
		"an address without a host": {
			args: []string{"--scaler-address=:9090"}, wantMessage: `--scaler-address: ":9090" has no host or no port`,
		},
		"no proxies": {
			args:        []string{"--proxy-replicas=0"},
			wantMessage: `--proxy-replicas: invalid setting: "0" is not a whole number from 1 to 100`,
		},
		"fewer than there are": {args: []string{"--proxy-replicas=2", "--proxy-max-replicas=2"}, wantMessage: `--proxy-max-replicas: invalid setting: the maximum number of proxies, 2, must exceed the number of proxies, 2`},
		"too many at most": {
			args:        []string{"--proxy-max-replicas=101"},
			wantMessage: `--proxy-max-replicas: invalid setting: "101" is not a whole number from 1 to 100`,
		},
		"fewer connections than none": {
			args:        []string{"--proxy-target-connections=-1"},
			wantMessage: `--proxy-target-connections: invalid setting: "-1" is not a whole number of connections, or 0 for none`,
		},
		"resources without a form": {
			environment: map[string]string{"KEDIFY_AGENT_PROXY_RESOURCES": "much"},
			wantMessage: `--proxy-resources: invalid setting: "much"`,
		},
		"a Pod with a port of the node": {
			args: []string{"--proxy-pod={hostNetwork: true}"}, wantMessage: "--proxy-pod: invalid setting",
		},
		"a Service of another type": {
			args:        []string{"--proxy-service={type: ExternalName}"},
			wantMessage: `--proxy-service: invalid setting: type: "ExternalName" is not`,
		},
		"a bootstrap with another control plane": {
			args:        []string{"--proxy-envoy-config={dynamic_resources: {}}"},
			wantMessage: "--proxy-envoy-config: invalid setting: dynamic_resources:",
		},
		"no address of a Pod": {
			args: []string{"--pod-ip=pod"}, wantMessage: `invalid setting: --pod-ip: ParseAddr("pod")`,
		},
		"a Secret of cert-manager without a name": {
			args:        []string{"--external-tls-secret", "--interceptor-tls-secret="},
			wantMessage: "--external-tls-secret: there is no name of the Secret",
		},
		"an image with a space":         {args: []string{"--proxy-image=a b"}, wantMessage: `--proxy-image: invalid setting: "a b"`},
		"an argument in place of flags": {args: []string{"start"}, wantMessage: `unknown command "start"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if _, _, err := commandline.Execute(t, newCommand, test.environment, test.args...); err == nil ||
				!strings.Contains(err.Error(), test.wantMessage) {
				t.Errorf("error %v, want one with %q", err, test.wantMessage)
			}
		})
	}
	if _, _, err := commandline.Execute(t, newCommand, nil, "--scaler-address=x"); !errors.Is(err, errSetting) {
		t.Errorf("error %v, want errSetting", err)
	}
}

// TestProxiesListenOnIPv6 has the proxies of clusters in which the first address of a Pod is of each family.
func TestProxiesListenOnIPv6(t *testing.T) {
	for address, want := range map[string]bool{"": false, "10.0.0.1": false, "::ffff:10.0.0.1": false, "2001:db8::1": true} {
		got, _, err := commandline.Execute(t, newCommand, map[string]string{"POD_IP": address})
		if err != nil {
			t.Fatal(err)
		}
		if parsed, err := got.proxySettings(); err != nil || parsed.IPv6 != want {
			t.Errorf("POD_IP %q: IPv6 %t, %v, want %t", address, parsed.IPv6, err, want)
		}
	}
}
