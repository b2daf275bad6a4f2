package router

import (
	"io"
	"log/slog"

	"github.com/argoproj/argo-rollouts/rollout/trafficrouting/plugin/rpc"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
)

// PluginName is the name under which the controller asks a plugin process for its traffic router (argo-rollouts
// rollout/trafficrouting/plugin/client).
const PluginName = "RpcTrafficRouterPlugin"

// Handshake is how the controller and a traffic router plugin recognise each other: the controller starts the process with the cookie in its
// environment (argo-rollouts rollout/trafficrouting/plugin/client).
func Handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{
		ProtocolVersion:  1,
		MagicCookieKey:   "ARGO_ROLLOUTS_RPC_PLUGIN",
		MagicCookieValue: "trafficrouter",
	}
}

// Serve offers router to the controller that started this process, until that controller ends the process or the connection. Where the environment lacks the
// cookie of Handshake, it ends the process with a message that does not help users: callers look for the cookie first. The warnings of the plugin
// library go to stderr, in the same notation as those of NewLogger.
func Serve(router Router, log *slog.Logger, stderr io.Writer) {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: Handshake(),
		Plugins:         plugin.PluginSet{PluginName: &rpc.RpcTrafficRouterPlugin{Impl: NewPlugin(router, log)}},
		Logger:          hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: stderr, JSONFormat: true}),
	})
}
