package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/argoproj/argo-rollouts/rollout/trafficrouting/plugin/rpc"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"

	"github.com/kedify/argo-rollouts-plugin/internal/router"
)

// startPlugin starts the binary as the controller does (argo-rollouts rollout/trafficrouting/plugin/client) and returns what the controller calls.
func startPlugin(binary, kubeconfig string, log io.Writer) (asked rpc.TrafficRouterPlugin, end func(), err error) {
	command := exec.Command(binary, "--log-level=warn") //nolint:noctx // its end is the plugin library's business, as in the controller
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "KUBERNETES_SERVICE_HOST=", "KUBERNETES_SERVICE_PORT=")
	process := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: router.Handshake(),
		Plugins:         plugin.PluginSet{router.PluginName: &rpc.RpcTrafficRouterPlugin{}},
		Cmd:             command,
		Managed:         true,
		Logger:          hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: log}),
	})
	control, err := process.Client()
	if err != nil {
		process.Kill()
		return nil, nil, fmt.Errorf("starting the plugin: %w", err)
	}
	dispensed, err := control.Dispense(router.PluginName)
	asked, ok := dispensed.(rpc.TrafficRouterPlugin)
	if err != nil || !ok {
		process.Kill()
		return nil, nil, fmt.Errorf("the plugin dispensed a %T: %w", dispensed, err)
	}
	if answer := asked.InitPlugin(); answer.HasError() {
		process.Kill()
		return nil, nil, answer
	}
	return asked, process.Kill, nil
}
