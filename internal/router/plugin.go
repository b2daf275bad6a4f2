package router

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
)

// CallTimeout bounds every call of a Router. The controller waits for the answer without a limit of its own, on one of its 10 workers; a call that is given
// up is asked again at the next reconcile.
const CallTimeout = 9 * time.Second

// maxStack bounds a logged stack in bytes. go-plugin takes log lines of up to 64 KiB for structured ones.
const maxStack = 32 << 10

// Plugin answers the controller's calls with a Router. It implements TrafficRouterPlugin of argo-rollouts' rollout/trafficrouting/plugin/rpc.
type Plugin struct {
	router Router
	log    *slog.Logger
}

// NewPlugin returns a Plugin that answers with router and logs panics to log. Errors are not logged: the controller does that with what it is answered.
func NewPlugin(router Router, log *slog.Logger) *Plugin {
	return &Plugin{router: router, log: log}
}

// InitPlugin always succeeds. The controller never repeats a failed InitPlugin and keeps using the instance, so nothing that can heal (an API server that is
// not up yet, a missing kubeconfig) may be decided here: routers connect at their first call and say then what is wrong.
func (*Plugin) InitPlugin() types.RpcError { return types.RpcError{} }

// Type answers with the Router's Type.
func (p *Plugin) Type() string { return p.router.Type() }

// SetWeight answers with Router.SetWeight.
func (p *Plugin) SetWeight(rollout *v1alpha1.Rollout, weight int32, others []v1alpha1.WeightDestination) types.RpcError {
	return p.answer("SetWeight", rollout, func(ctx context.Context) error {
		return p.router.SetWeight(ctx, rollout, weight, others)
	})
}

// VerifyWeight answers with Router.VerifyWeight.
func (p *Plugin) VerifyWeight(rollout *v1alpha1.Rollout, weight int32, others []v1alpha1.WeightDestination) (types.RpcVerified, types.RpcError) {
	verified := types.NotVerified
	answer := p.answer("VerifyWeight", rollout, func(ctx context.Context) error {
		holds, err := p.router.VerifyWeight(ctx, rollout, weight, others)
		if holds && err == nil {
			verified = types.Verified
		}
		return err
	})
	return verified, answer
}

// UpdateHash answers with Router.UpdateHash.
func (p *Plugin) UpdateHash(rollout *v1alpha1.Rollout, canaryHash, stableHash string, others []v1alpha1.WeightDestination) types.RpcError {
	return p.answer("UpdateHash", rollout, func(ctx context.Context) error {
		return p.router.UpdateHash(ctx, rollout, canaryHash, stableHash, others)
	})
}

// SetHeaderRoute answers with Router.SetHeaderRoute.
func (p *Plugin) SetHeaderRoute(rollout *v1alpha1.Rollout, route *v1alpha1.SetHeaderRoute) types.RpcError {
	return p.answer("SetHeaderRoute", rollout, func(ctx context.Context) error {
		return p.router.SetHeaderRoute(ctx, rollout, route)
	})
}

// SetMirrorRoute answers with Router.SetMirrorRoute.
func (p *Plugin) SetMirrorRoute(rollout *v1alpha1.Rollout, route *v1alpha1.SetMirrorRoute) types.RpcError {
	return p.answer("SetMirrorRoute", rollout, func(ctx context.Context) error {
		return p.router.SetMirrorRoute(ctx, rollout, route)
	})
}

// RemoveManagedRoutes answers with Router.RemoveManagedRoutes.
func (p *Plugin) RemoveManagedRoutes(rollout *v1alpha1.Rollout) types.RpcError {
	return p.answer("RemoveManagedRoutes", rollout, func(ctx context.Context) error {
		return p.router.RemoveManagedRoutes(ctx, rollout)
	})
}

// answer runs one call of the Router within CallTimeout and puts its error, or its panic, into the form in which it travels. There, an empty text means
// success, so an error always gets one.
func (p *Plugin) answer(method string, rollout *v1alpha1.Rollout, call func(context.Context) error) (answer types.RpcError) {
	ctx, cancel := context.WithTimeout(context.Background(), CallTimeout)
	defer cancel()
	defer func() {
		if cause := recover(); cause != nil {
			stack := debug.Stack()
			p.log.ErrorContext(ctx, "panic in a call", "method", method, "rollout", NameOf(rollout), "panic", fmt.Sprint(cause),
				"stack", string(stack[:min(len(stack), maxStack)]))
			answer.ErrorString = fmt.Sprintf("%s of rollout %q: panic: %v: this is a bug of the plugin, its log has the stack", method, NameOf(rollout), cause)
		}
	}()
	if err := call(ctx); err != nil {
		answer.ErrorString = err.Error()
		if answer.ErrorString == "" {
			answer.ErrorString = fmt.Sprintf("%s of rollout %q: an error of type %T without a text", method, NameOf(rollout), err)
		}
	}
	return answer
}
