package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/scaler"
	"github.com/kedify/argo-rollouts-plugin/test/kit/commandline"
)

func TestSettings(t *testing.T) {
	standard := settings{
		grpcAddress: ":9090", healthAddress: ":8080", metricsAddress: ":2223", maxStreams: 14000,
		interceptorNamespace: "keda", interceptorCA: "kedify-http-interceptor-ca",
		interceptorToken: "/var/run/secrets/kedify/token",
		shutdownDelay:    3 * time.Second, shutdownDeadline: 15 * time.Second,
		logFormat: "json", logLevel: "info",
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
		wantErr     string // in the error
	}{
		"defaults": {want: standard},
		"a variable": {
			environment: map[string]string{"KEDIFY_SCALER_LOG_LEVEL": "debug"},
			want:        changed(func(s *settings) { s.logLevel = "debug" }),
		},
		"the Pod's namespace": {
			environment: map[string]string{"POD_NAMESPACE": "http"},
			want:        changed(func(s *settings) { s.interceptorNamespace = "http" }),
		},
		"a flag before a variable": {
			environment: map[string]string{"KEDIFY_SCALER_MAX_STREAMS": "7"}, args: []string{"--max-streams=8"},
			want: changed(func(s *settings) { s.maxStreams = 8 }),
		},
		"TLS": {
			args: []string{"--tls-cert-file=c", "--tls-key-file=k", "--tls-client-ca-file=a"},
			want: changed(func(s *settings) { s.tls = scaler.TLS{Certificate: "c", Key: "k", ClientCA: "a"} }),
		},
		"a certificate without a key": {args: []string{"--tls-cert-file=c"}, wantErr: "--tls-key-file"},
		"a client CA alone":           {args: []string{"--tls-client-ca-file=a"}, wantErr: "--tls-client-ca-file needs both"},
		"no streams":                  {args: []string{"--max-streams=0"}, wantErr: "--max-streams: 0 is too small"},
		"a negative time":             {args: []string{"--shutdown-delay=-1s"}, wantErr: "--shutdown-delay: -1s is negative"},
		"an invalid variable": {
			environment: map[string]string{"KEDIFY_SCALER_MAX_STREAMS": "many"}, wantErr: "KEDIFY_SCALER_MAX_STREAMS",
		},
		"an argument": {args: []string{"extra"}, wantErr: "extra"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, _, err := commandline.Execute(t, newCommand, test.environment, test.args...)
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Errorf("error %v, want something with %q", err, test.wantErr)
				}
				return
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(settings{})); diff != "" || err != nil {
				t.Errorf("%v; settings (-want +got)\n%s", err, diff)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	_, help, err := commandline.Execute(t, newCommand, nil, "--help")
	for _, want := range []string{"KEDIFY_SCALER_LOG_LEVEL", "--tls-client-ca-file", "--grpc-address", "POD_NAMESPACE"} {
		if err != nil || !strings.Contains(help, want) {
			t.Errorf("%v; the help lacks %s", err, want)
		}
	}
}
