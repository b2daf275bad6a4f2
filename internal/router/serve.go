package router

import (
	"io"
	"log/slog"

	"github.com/argoproj/argo-rollouts/rollout/trafficrouting/plugin/rpc"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
)

// PluginName is the key of the traffic router in a plugin process (argo-rollouts rollout/trafficrouting/plugin/client).
const PluginName = "RpcTrafficRouterPlugin"

// Handshake returns the handshake between the controller and a traffic router plugin: the controller starts the process
// with the cookie in its environment (argo-rollouts rollout/trafficrouting/plugin/client).
func Handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{
		ProtocolVersion:  1,
		MagicCookieKey:   "ARGO_ROLLOUTS_RPC_PLUGIN",
		MagicCookieValue: "trafficrouter",
	}
}

// Serve serves router to the controller that started this process, until the controller ends the process or the
// connection. Without the cookie of Handshake in the environment, go-plugin ends the process with a message that does
// not help users: callers check for the cookie first. Warnings of go-plugin go to stderr, in the format of NewLogger.
func Serve(router Router, log *slog.Logger, stderr io.Writer) {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: Handshake(),
		Plugins:         plugin.PluginSet{PluginName: &rpc.RpcTrafficRouterPlugin{Impl: NewPlugin(router, log)}},
		Logger:          hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: stderr, JSONFormat: true}),
	})
}
