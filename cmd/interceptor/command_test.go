package main

import (
	"errors"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/commandline"
)

func TestSettings(t *testing.T) {
	standard := settings{
		xdsAddress: ":5678", sinkAddress: ":9901", proxyAddress: ":8080", adminAddress: ":9090",
		metricsAddress:   ":2223",
		dashboardAddress: "127.0.0.1:9091",
		translate:        translate.DefaultOptions(),
		coldStartTimeout: 20 * time.Minute,
		limits:           holding.Limits{Object: 1000, Namespace: 4000, Proxy: 1500, Total: 10_000},

		waitingPages: true, envoySettings: true,
		podName: "pod-1", podNamespace: "keda", maxObjects: 1000, maxHosts: 5000, maxHistograms: 1000,
		batchInterval: 10 * time.Millisecond, clusterGrace: 5 * time.Second, maxStreams: 2048,
		shutdownDelay: 3 * time.Second, shutdownDeadline: 15 * time.Second,
		logFormat: "json", logLevel: "info",

		interceptorTLSSecret: "kedify-http-interceptor-tls", proxyAuthentication: "permissive",
	}
	standard.translate.TLS = true
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
		"the defaults are the contract's ports": {want: standard},
		"flags": {
			args: []string{"--namespaces", "a,b", "--log-level=debug", "--pprof", "--max-upstream-requests=7"},
			want: changed(func(s *settings) {
				s.namespaces, s.logLevel, s.profiling, s.translate.MaxRequests = []string{"a", "b"}, "debug", true, 7
			}),
		},
		"the environment stands in for flags": {
			environment: map[string]string{
				"KEDIFY_INTERCEPTOR_NAMESPACES": "a,b", "KEDIFY_INTERCEPTOR_SHUTDOWN_DELAY": "1s",
				"POD_NAMESPACE":                          "elsewhere",
				"KEDIFY_HTTP_PROXY_MAX_UPSTREAM_RETRIES": "9",
			},
			want: changed(func(s *settings) {
				s.namespaces, s.shutdownDelay, s.podNamespace, s.translate.MaxRetries = []string{
					"a",
					"b",
				}, time.Second, "elsewhere", 9
			}),
		},
		"no limit in the queue": {
			args: []string{"--cold-start-timeout=0s"}, want: changed(func(s *settings) { s.coldStartTimeout = 0 }),
		},
		"no limit for headers": {
			args: []string{"--request-headers-timeout=0s"},
			want: changed(func(s *settings) { s.translate.RequestHeadersTimeout = 0 }),
		},
		"the address of the Pod": {
			environment: map[string]string{"POD_IP": "10.1.2.3"},
			args:        []string{"--xds-address", "127.0.0.1:7", "--max-queued=5", "--cold-start-timeout=1m"},
			want: changed(func(s *settings) {
				s.podIP, s.xdsAddress, s.limits.Total, s.coldStartTimeout = "10.1.2.3", "127.0.0.1:7", 5, time.Minute
				s.translate.Hold.Checks = netip.MustParseAddrPort("10.1.2.3:7")
			}),
		},
		"former names of flags": {
			environment: map[string]string{"KEDIFY_INTERCEPTOR_MAX_HELD_PER_PROXY": "7"},
			args:        []string{"--max-held=5", "--max-held-per-object=6"},
			want: changed(func(s *settings) {
				s.limits.Total, s.limits.Object, s.limits.Proxy = 5, 6, 7
			}),
		},
		"one of IPv6": {
			args: []string{"--pod-ip", "2001:db8::1"},
			want: changed(func(s *settings) {
				s.podIP, s.translate.Hold.Checks = "2001:db8::1", netip.MustParseAddrPort("[2001:db8::1]:5678")
			}),
		},
		"one of IPv4 in IPv6 form, and an xDS address of IPv6": {
			args: []string{"--pod-ip", "::ffff:10.1.2.3", "--xds-address=[::1]:7"},
			want: changed(func(s *settings) {
				s.podIP, s.xdsAddress = "::ffff:10.1.2.3", "[::1]:7"
				s.translate.Hold.Checks = netip.MustParseAddrPort("10.1.2.3:7")
			}),
		},
		"strictness": {
			args: []string{"--underscore-headers=drop", "--escaped-slashes=redirect", "--merge-slashes"},
			want: changed(func(s *settings) {
				s.translate.Strictness = translate.Strictness{
					UnderscoreHeaders: translate.Drop, EscapedSlashes: translate.Redirect, MergeSlashes: true,
				}
			}),
		},
		"another certificate": {
			environment: map[string]string{"KEDIFY_INTERCEPTOR_INTERCEPTOR_TLS_SECRET": "tls"},
			want:        changed(func(s *settings) { s.interceptorTLSSecret = "tls" }),
		},
		"no TLS": {
			environment: map[string]string{"KEDIFY_INTERCEPTOR_INTERCEPTOR_TLS_SECRET": ""},
			want:        changed(func(s *settings) { s.interceptorTLSSecret = "" }),
		},
		"strict": {
			args: []string{"--proxy-authentication=strict"},
			want: changed(func(s *settings) { s.proxyAuthentication = "strict" }),
		},
		"a flag counts before the environment": {
			environment: map[string]string{"KEDIFY_INTERCEPTOR_XDS_ADDRESS": ":1"},
			args:        []string{"--xds-address", ":2"},
			want:        changed(func(s *settings) { s.xdsAddress = ":2" }),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			environment := map[string]string{"POD_NAME": "pod-1"}
			maps.Copy(environment, test.environment)
			got, output, err := commandline.Execute(t, newCommand, environment, test.args...)
			if err != nil {
				t.Fatalf("%v\n%s", err, output)
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(settings{}),
				cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
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
		"an argument":                {args: []string{"start"}, wantMessage: `unknown command "start"`},
		"a value in the environment": {
			environment: map[string]string{"KEDIFY_INTERCEPTOR_MAX_STREAMS": "many"},
			wantMessage: "environment variable KEDIFY_INTERCEPTOR_MAX_STREAMS",
		},
		"a negative time": {args: []string{"--shutdown-delay=-1s"}, wantMessage: "--shutdown-delay: -1s is negative"},
		"a negative time for headers": {
			args:        []string{"--request-headers-timeout=-1ns"},
			wantMessage: "--request-headers-timeout: -1ns is negative: use 0s or more",
		},
		"a negative bound": {
			args:        []string{"--max-hosts-per-namespace=-1"},
			wantMessage: `--max-hosts-per-namespace: -1 is negative: use 0 or more`,
		},
		"a negative number of histograms": {
			args:        []string{"--max-response-histograms=-1"},
			wantMessage: `--max-response-histograms: -1 is negative: use 0 or more`,
		},
		"an unknown action": {
			args:        []string{"--escaped-slashes=merge"},
			wantMessage: `--escaped-slashes: unknown action "merge": use keep, redirect, reject, unescape`,
		},
		"an unknown mode": {
			args:        []string{"--proxy-authentication=off"},
			wantMessage: `--proxy-authentication: "off" is not a mode: use permissive or strict`,
		},
		"strict without TLS": {
			args:        []string{"--proxy-authentication=strict", "--interceptor-tls-secret="},
			wantMessage: "--proxy-authentication: strict needs TLS: set --interceptor-tls-secret",
		},
		"a live page for all": {
			args:        []string{"--dashboard-address=:9091"},
			wantMessage: `--dashboard-address: ":9091" is not a loopback address with a port: use 127.0.0.1:9091`,
		},
		"a live page on the Pod network": {
			args: []string{"--dashboard-address=10.1.2.3:9091"}, wantMessage: "is not a loopback address",
		},
		"no proxy allowed": {args: []string{"--max-streams=0"}, wantMessage: "--max-streams: 0 is too small"},
		"no address":       {args: []string{"--pod-ip=here"}, wantMessage: "--pod-ip: ParseAddr"},
		"a port by its name": {
			args:        []string{"--pod-ip=10.1.2.3", "--xds-address=:xds"},
			wantMessage: "--xds-address: no port number at the end",
		},
		"a negative timeout": {
			args:        []string{"--cold-start-timeout=-1s"},
			wantMessage: "--cold-start-timeout: -1s is out of range: use at most 55m0s, or 0s for as long as possible",
		},
		"a timeout above the limit of Envoy": {
			args:        []string{"--cold-start-timeout=1h"},
			wantMessage: "--cold-start-timeout: 1h0m0s is out of range",
		},
		"no queued request": {
			args:        []string{"--max-held-per-proxy=0"},
			wantMessage: "or leave --pod-ip empty to queue no requests",
		},
		"a time without a unit":             {args: []string{"--cluster-grace=5"}, wantMessage: "missing unit"},
		"a number that should be a boolean": {args: []string{"--pprof=7"}, wantMessage: "--pprof"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if _, _, err := commandline.Execute(t, newCommand, test.environment, test.args...); err == nil ||
				!strings.Contains(err.Error(), test.wantMessage) {
				t.Errorf("error %v, want one with %q", err, test.wantMessage)
			}
		})
	}
	if _, _, err := commandline.Execute(t, newCommand, nil, "--max-streams=0"); !errors.Is(err, errSetting) {
		t.Errorf("error %v, want errSetting", err)
	}
}

func TestOtherUses(t *testing.T) {
	for args, wantMessage := range map[string]string{
		"--version":       program + " version ",
		"--help":          "KEDIFY_INTERCEPTOR_LOG_LEVEL for --log-level",
		"completion bash": "bash completion",
	} {
		_, output, err := commandline.Execute(t, newCommand, nil, strings.Fields(args)...)
		if err != nil || !strings.Contains(output, wantMessage) {
			t.Errorf("%s = %v, %.200q; want %q", args, err, output, wantMessage)
		}
	}
}

// TestFlagsOfTheChart: the interceptor accepts the flags that the chart renders from values for traces and logs. The
// kubelet turns $$( into $(.
func TestFlagsOfTheChart(t *testing.T) {
	rendered, err := os.ReadFile("../../test/chart/testdata/telemetry/rendered.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, deployment, _ := strings.Cut(string(rendered), "- name: interceptor\n")
	_, list, _ := strings.Cut(deployment, "args:\n")
	list, _, _ = strings.Cut(list, "env:\n")
	var args []string
	if err := yaml.Unmarshal([]byte(list), &args); err != nil || len(args) == 0 {
		t.Fatalf("flags %q, %v", args, err)
	}
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, kit.NewTLSSecret(t, "keda", "otel", 1, "otel.test").Data["tls.crt"], 0o600); err != nil {
		t.Fatal(err)
	}
	for i, arg := range args {
		args[i] = strings.NewReplacer("$$(", "$(", "/etc/kedify/tracing/ca.crt", ca).Replace(arg)
	}
	got, output, err := commandline.Execute(t, newCommand, nil, args...)
	if err != nil {
		t.Fatalf("%q: %v\n%s", args, err, output)
	}
	want := translate.AccessLog{
		Format: translate.FormatJSON, Filter: []string{"status>=500", "duration>=2s"}, Sampling: "0.5",
		Fields: map[string]string{"traceId": "%TRACE_ID%", "tenant": "t=%REQ(X-TENANT):64%, $(HOSTNAME)"},
	}
	if diff := cmp.Diff(want, got.translate.AccessLogSettings); diff != "" {
		t.Errorf("access log (-want +got):\n%s", diff)
	}
	tracing := got.translate.Tracing
	if tracing.Endpoint != "https://otel-collector.observability.svc.cluster.local:4317" || tracing.Sampling != 0.1 ||
		tracing.CA == "" || got.logLevel != "debug" || got.logFormat != "text" {
		t.Errorf("tracing %+v, log level %s, format %s", tracing, got.logLevel, got.logFormat)
	}
}
