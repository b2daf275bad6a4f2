package envoy_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyproc"
)

// TestEnvoyAcceptsTelemetry: Envoy accepts every command of format strings, every condition, and traces.
func TestEnvoyAcceptsTelemetry(t *testing.T) {
	t.Parallel()
	envoy := envoyproc.Binary(t)
	ca := string(kit.NewTLSSecret(t, "apps", "otel", 1, "otel.tracing").Data[corev1.TLSCertKey])
	every := "%" + strings.Join(translate.FormatCommands(), "% %") + "% "
	for name, change := range map[string]func(*translate.Options){
		"every command in text": func(o *translate.Options) { o.AccessLogSettings.Format = every + "100 %%" },
		"every command in JSON": func(o *translate.Options) {
			o.AccessLogSettings.Fields = map[string]string{"every": every, "header": "%REQ(X-A?:PATH):10% %RESP(X-B)% %TRAILER(c)%"}
		},
		"text": func(o *translate.Options) { o.AccessLogSettings.Format = translate.FormatText },
		"every condition": func(o *translate.Options) {
			o.AccessLogSettings.Sampling = "0.0001"
			o.AccessLogSettings.Filter = []string{"status>=100", "duration>=24h", "any-flag", "grpc-error", "flag=UH", "flag=UAEX"}
		},
		"every response flag": func(o *translate.Options) {
			for flag := range strings.FieldsSeq("LH UH UT LR UR UF UC UO NR DI FI RL UAEX RLSE DC URX SI IH DPE UMSDR RFCF NFCF DT " +
				"UPE NC OM DF DO DR UDO") {
				o.AccessLogSettings.Filter = append(o.AccessLogSettings.Filter, "flag="+flag)
			}
		},
		"traces": func(o *translate.Options) {
			o.Tracing = translate.Tracing{Endpoint: "http://otel.tracing.svc.cluster.local", Sampling: 0.001}
		},
		"traces by TLS": func(o *translate.Options) {
			o.Tracing = translate.Tracing{Endpoint: "https://otel.tracing.svc.cluster.local", CA: ca}
		},
		"traces by TLS to an IP address": func(o *translate.Options) {
			o.Tracing = translate.Tracing{Endpoint: "https://[2001:db8::1]:4317", CA: ca}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := translate.DefaultOptions()
			change(&options)
			if err := errors.Join(options.AccessLogSettings.Check(), options.Tracing.Check()); err != nil {
				t.Fatal(err)
			}
			config := kit.NewEnvoyConfig(t, translated(t, resolve.Inputs{}, options))
			p := &proxy{files: t.TempDir()}
			p.write(t, "static.json", staticBootstrap(t, config))
			command := exec.CommandContext(t.Context(), envoy, "--mode", "validate", "--log-level", "warning",
				"--config-path", filepath.Join(p.files, "static.json"))
			if output, err := command.CombinedOutput(); err != nil {
				t.Errorf("Envoy rejects it (%v):\n%s", err, output)
			}
		})
	}
}
