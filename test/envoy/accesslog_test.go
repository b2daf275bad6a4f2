package envoy_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyproc"
)

// TestEnvoyAcceptsTelemetry: Envoy accepts every command of format strings, every condition, and traces.
func TestEnvoyAcceptsTelemetry(t *testing.T) {
	t.Parallel()
	envoy := envoyproc.Binary(t)
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
		"traces": func(o *translate.Options) {
			o.Tracing = translate.Tracing{Endpoint: "http://otel.tracing.svc.cluster.local", Sampling: 0.001}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := translate.DefaultOptions()
			change(&options)
			if err := options.AccessLogSettings.Check(); err != nil {
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
