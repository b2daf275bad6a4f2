package routerbench

import (
	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/rollout/trafficrouting/plugin/rpc"
	rolloutstypes "github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"

	"github.com/kedify/argo-rollouts-plugin/internal/router"
)

// noopPlugin is a no-op router plugin: its cost is that of go-plugin, net/rpc and gob.
type noopPlugin struct{}

var _ rpc.TrafficRouterPlugin = noopPlugin{}

// ServedNoop reports whether this process was started as a plugin. If so, it has served a no-op router to its parent
// process until the parent ended it.
func ServedNoop(getenv func(string) string) bool {
	handshake := router.Handshake()
	if getenv(handshake.MagicCookieKey) != handshake.MagicCookieValue {
		return false
	}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: router.Handshake(),
		Plugins:         plugin.PluginSet{router.PluginName: &rpc.RpcTrafficRouterPlugin{Impl: noopPlugin{}}},
		Logger:          hclog.NewNullLogger(),
	})
	return true
}

func (noopPlugin) InitPlugin() rolloutstypes.RpcError { return rolloutstypes.RpcError{} }

func (noopPlugin) Type() string { return "nothing" }

func (noopPlugin) SetWeight(*v1alpha1.Rollout, int32, []v1alpha1.WeightDestination) rolloutstypes.RpcError {
	return rolloutstypes.RpcError{}
}

func (noopPlugin) VerifyWeight(
	*v1alpha1.Rollout, int32, []v1alpha1.WeightDestination,
) (rolloutstypes.RpcVerified, rolloutstypes.RpcError) {
	return rolloutstypes.Verified, rolloutstypes.RpcError{}
}

func (noopPlugin) UpdateHash(*v1alpha1.Rollout, string, string, []v1alpha1.WeightDestination) rolloutstypes.RpcError {
	return rolloutstypes.RpcError{}
}

func (noopPlugin) SetHeaderRoute(*v1alpha1.Rollout, *v1alpha1.SetHeaderRoute) rolloutstypes.RpcError {
	return rolloutstypes.RpcError{}
}

func (noopPlugin) SetMirrorRoute(*v1alpha1.Rollout, *v1alpha1.SetMirrorRoute) rolloutstypes.RpcError {
	return rolloutstypes.RpcError{}
}

func (noopPlugin) RemoveManagedRoutes(*v1alpha1.Rollout) rolloutstypes.RpcError {
	return rolloutstypes.RpcError{}
}
