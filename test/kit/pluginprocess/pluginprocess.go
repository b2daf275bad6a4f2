// Package pluginprocess runs the router plugin's binary as the Argo Rollouts controller does (argo-rollouts
// rollout/trafficrouting/plugin/client): as a child process, through the socket of go-plugin.
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

// Process is a running plugin.
type Process struct {
	rpc.TrafficRouterPlugin

	client *plugin.Client
}

// Start starts binary with args, performs go-plugin's handshake and calls InitPlugin. The plugin reads kubeconfig. Its
// log is written to log.
func Start(binary, kubeconfig string, log io.Writer, args ...string) (*Process, error) {
	command := exec.Command(binary, args...) //nolint:noctx,gosec // the plugin library ends it, as in the controller
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
		return nil, fmt.Errorf("start the plugin: %w", err)
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

// Run is Start without args. The plugin ends with the test, and logs to a file in a temporary folder of the test.
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

// PID returns the process ID.
func (p *Process) PID() int { return p.client.ReattachConfig().Pid }

// Exited reports whether the process is known to have exited.
func (p *Process) Exited() bool { return p.client.Exited() }

// Kill kills the process and waits until it has exited.
func (p *Process) Kill() { p.client.Kill() }

// AsError returns the error of a response, or nil if it has none. An RpcError is a struct, so it is never nil as an
// error.
func AsError(answer rolloutstypes.RpcError) error {
	if answer.HasError() {
		return answer
	}
	return nil
}
