package plugin_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/argoproj/argo-rollouts/rollout/trafficrouting/plugin/rpc"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"

	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
)

const (
	// builtVersion is the version that the tested binary was built with.
	builtVersion = "v9.9.9-test"
	// module is the import path of the project.
	module = "github.com/kedify/argo-rollouts-plugin"
	// config is the configuration of the Rollouts in these tests.
	config = `{"httpScaledObjectName":"web"}`
)

// binary and gatewayBinary are the paths of the tested binaries; TestMain builds them.
var binary, gatewayBinary string

func TestMain(m *testing.M) {
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	folder, err := os.MkdirTemp("", "rollouts-plugin-kedify")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	binary, gatewayBinary = filepath.Join(folder, "rollouts-plugin-kedify"), filepath.Join(folder, "gatewayapi-plugin")
	if err := program.Build(context.Background(), folder, builtVersion, "rollouts-plugin-kedify",
		"gatewayapi-plugin"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// controller is the Argo Rollouts controller's side of one plugin process.
type controller struct {
	rpc.TrafficRouterPlugin

	process *plugin.Client
	control plugin.ClientProtocol
	log     *journal
}

// start starts the router kedify/http with kubeconfig.
func start(t *testing.T, kubeconfig string) controller {
	t.Helper()
	return startRouter(t, httpso.Type, binary, kubeconfig)
}

// startRouter starts the binary of a router with kubeconfig and args, like rollout/trafficrouting/plugin/client of
// argo-rollouts: handshake, dispense, InitPlugin, Ping.
func startRouter(t *testing.T, router, file, kubeconfig string, args ...string) controller {
	t.Helper()
	command := exec.Command(file, args...) //nolint:noctx // go-plugin ends it, as in the controller
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "KUBERNETES_SERVICE_HOST=", "KUBERNETES_SERVICE_PORT=")
	log := new(journal)
	process := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: plugin.HandshakeConfig{
			ProtocolVersion:  1,
			MagicCookieKey:   "ARGO_ROLLOUTS_RPC_PLUGIN",
			MagicCookieValue: "trafficrouter",
		},
		Plugins: map[string]plugin.Plugin{"RpcTrafficRouterPlugin": &rpc.RpcTrafficRouterPlugin{}},
		Cmd:     command,
		Managed: true,
		Logger:  hclog.New(&hclog.LoggerOptions{Level: hclog.Info, Output: log}),
	})
	t.Cleanup(process.Kill)
	control, err := process.Client()
	if err != nil {
		t.Fatalf("handshake: %v", err)
	}
	dispensed, err := control.Dispense("RpcTrafficRouterPlugin")
	if err != nil {
		t.Fatalf("dispense: %v", err)
	}
	client, ok := dispensed.(rpc.TrafficRouterPlugin)
	if !ok {
		t.Fatalf("dispensed a %T", dispensed)
	}
	if answer := client.InitPlugin(); answer.HasError() {
		t.Fatalf("InitPlugin: %v", answer)
	}
	if err := control.Ping(); err != nil {
		t.Fatalf("Ping: %v", err)
	}
	if name := client.Type(); name != router {
		t.Fatalf("Type is %q", name)
	}
	return controller{TrafficRouterPlugin: client, process: process, control: control, log: log}
}

// journal contains what the controller would log of the plugin's stderr.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends to the journal.
func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(line)
}

// String returns the log so far.
func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}
