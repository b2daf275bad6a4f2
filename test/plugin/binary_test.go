package plugin_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// runWithoutCookie runs a binary without the controller's cookie and returns its exit code and output.
func runWithoutCookie(t *testing.T, file string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, problems bytes.Buffer
	command := exec.CommandContext(t.Context(), file, args...)
	command.Stdout, command.Stderr = &out, &problems
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return command.ProcessState.ExitCode(), out.String(), problems.String()
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		"nothing":             {nil, 1, "", "argo-rollouts-config"},
		"--help":              {[]string{"--help"}, 0, "trafficRouterPlugins", ""},
		"--version":           {[]string{"--version"}, 0, " " + builtVersion, ""},
		"a notation":          {[]string{"-logformat=xml"}, 2, "", `"xml" is neither json nor text`},
		"an unknown flag":     {[]string{"--color"}, 2, "", "--help"},
		"an unknown argument": {[]string{"serve"}, 2, "", `"serve"`},
		"install, no target":  {[]string{"install"}, 2, "", "install DIR_OR_FILE"},
		"install, no folder":  {[]string{"install", "/does/not/exist/plugin"}, 1, "", "does the folder exist"},
	}
	for name, test := range tests {
		for _, file := range []string{binary, gatewayBinary} {
			t.Run(filepath.Base(file)+", "+name, func(t *testing.T) {
				t.Parallel()
				code, stdout, stderr := runWithoutCookie(t, file, test.args...)
				if code != test.code {
					t.Errorf("exit code is %d, want %d", code, test.code)
				}
				for _, stream := range []struct{ name, got, want string }{
					{"stdout", stdout, test.stdout},
					{"stderr", stderr, test.stderr},
				} {
					if (stream.want == "") != (stream.got == "") || !strings.Contains(stream.got, stream.want) {
						t.Errorf("%s is %q, want %q in it", stream.name, stream.got, stream.want)
					}
				}
			})
		}
	}
}

func TestInstall(t *testing.T) {
	folder := t.TempDir()
	tests := map[string]struct{ target, want string }{
		"into a folder":       {folder, filepath.Join(folder, "rollouts-plugin-kedify")},
		"as a file":           {filepath.Join(folder, "router"), filepath.Join(folder, "router")},
		"over an older one":   {filepath.Join(folder, "old"), filepath.Join(folder, "old")},
		"into a given folder": {folder + "/", filepath.Join(folder, "rollouts-plugin-kedify")},
	}
	if err := os.WriteFile(filepath.Join(folder, "old"), []byte("not a program"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if code, _, stderr := runWithoutCookie(t, binary, "install", test.target); code != 0 {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			status, err := os.Stat(test.want)
			if err != nil {
				t.Fatal(err)
			}
			if mode := status.Mode().Perm(); mode != 0o755 {
				t.Errorf("mode is %v", mode)
			}
			if _, stdout, _ := runWithoutCookie(t, test.want, "--version"); !strings.Contains(stdout, builtVersion) {
				t.Errorf("the installed binary printed %q", stdout)
			}
		})
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 3 {
		t.Errorf("folder holds %v; something was left behind", entries)
	}
}

func TestBinariesLinkOnlyWhatTheyNeed(t *testing.T) {
	t.Parallel()
	const (
		controllers, envoy = "sigs.k8s.io/controller-runtime", "github.com/envoyproxy/go-control-plane"

		agent        = module + "/internal/agent"
		cli          = module + "/internal/cli"
		controlplane = module + "/internal/controlplane"
		model        = module + "/internal/model"
		router       = module + "/internal/router"
		scaler       = module + "/internal/scaler"
	)
	forbidden := map[string][]string{
		"rollouts-plugin-kedify": {controllers, envoy, agent, cli, controlplane, scaler, router + "/gatewayapi"},
		"gatewayapi-plugin": {
			controllers, envoy, agent, cli, controlplane, scaler, "sigs.k8s.io/gateway-api", router + "/httpso", model +
				"/split", model + "\n",
		},
		"interceptor": {controllers, agent, cli, router, scaler, "github.com/open-policy-agent"},
		"agent":       {envoy, "google.golang.org/grpc", cli, controlplane, router, scaler},
		"kubectl-http_canary": {
			controllers, envoy, controlplane, scaler, agent + "/webhook", agent + "/controllers", "k8s.io/client-go/kubernetes",
			"k8s.io/cli-runtime",
		},
		"scaler": {
			controllers, envoy, agent, cli, router, controlplane + "/ingest", controlplane + "/resolve", controlplane +
				"/translate",
			controlplane + "/xds", "github.com/kedacore/keda", "k8s.io/client-go/kubernetes",
			"github.com/argoproj/argo-rollouts",
			"google.golang.org/grpc/reflection",
		},
	}
	for command, packages := range forbidden {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			output, err := exec.CommandContext(t.Context(), "go", "list", "-deps", module+"/cmd/"+command).Output()
			if err != nil {
				t.Fatal(err)
			}
			for dependency := range strings.Lines(string(output)) {
				for _, unwanted := range packages {
					if strings.HasPrefix(dependency, unwanted) {
						t.Errorf("the binary links %s", strings.TrimSpace(dependency))
					}
				}
			}
		})
	}
}
