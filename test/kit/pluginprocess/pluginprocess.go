// Package pluginprocess runs the router plugin's binary as the Argo Rollouts controller does (argo-rollouts rollout/trafficrouting/plugin/client): as a process
// of its own, over go-plugin's socket.
package pluginprocess

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/argoproj/argo-rollouts/rollout/trafficrouting/plugin/rpc"
	rolloutstypes "github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"

	"github.com/kedify/argo-rollouts-plugin/internal/router"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// Process is what the controller holds of one plugin process: the calls, and the end.
type Process struct {
	rpc.TrafficRouterPlugin

	client *plugin.Client
}

// Start starts binary with args, shakes hands, and makes the call InitPlugin. The plugin reaches the API server by kubeconfig. What it logs goes to log.
func Start(binary, kubeconfig string, log io.Writer, args ...string) (*Process, error) {
	command := exec.Command(binary, args...) //nolint:noctx,gosec // its end is the plugin library's business, as in the controller
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "KUBERNETES_SERVICE_HOST=", "KUBERNETES_SERVICE_PORT=")
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: router.Handshake(),
		Plugins:         plugin.PluginSet{router.PluginName: &rpc.RpcTrafficRouterPlugin{}},
		Cmd:             command,
		Managed:         true,
		StartTimeout:    await.Patience(),
		Logger:          hclog.New(&hclog.LoggerOptions{Level: hclog.Info, Output: log}),
	})
	control, err := client.Client()
	if err != nil {
		client.Kill()
		return nil, fmt.Errorf("starting the plugin: %w", err)
	}
	dispensed, err := control.Dispense(router.PluginName)
	router, ok := dispensed.(rpc.TrafficRouterPlugin)
	if err != nil || !ok {
		client.Kill()
		return nil, fmt.Errorf("the plugin dispensed a %T: %w", dispensed, err)
	}
	if answer := router.InitPlugin(); answer.HasError() {
		client.Kill()
		return nil, fmt.Errorf("InitPlugin: %w", answer)
	}
	return &Process{TrafficRouterPlugin: router, client: client}, nil
}

// Run starts binary without args as Start does, and ends it with the test. What it logs goes to a file in a folder of the test's own.
func Run(tb testing.TB, binary, kubeconfig string) *Process {
	tb.Helper()
	log, err := os.Create(filepath.Join(tb.TempDir(), "plugin.log"))
	if err != nil {
		tb.Fatal(err)
	}
	process, err := Start(binary, kubeconfig, log)
	if err != nil {
		tb.Fatal(errors.Join(err, log.Close()))
	}
	tb.Cleanup(func() {
		process.Kill()
		if err := log.Close(); err != nil {
			tb.Error(err)
		}
	})
	return process
}

// PID is the number of the process.
func (p *Process) PID() int { return p.client.ReattachConfig().Pid }

// Exited says whether the process is known to have ended.
func (p *Process) Exited() bool { return p.client.Exited() }

// Kill ends the process and waits for its end.
func (p *Process) Kill() { p.client.Kill() }

// AsError is the error of an answer; nil where it has none. An RpcError is never nil, so it cannot be returned as it is.
func AsError(answer rolloutstypes.RpcError) error {
	if answer.HasError() {
		return answer
	}
	return nil
}
