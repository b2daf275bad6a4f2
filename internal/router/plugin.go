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
	result := p.run("VerifyWeight", rollout, func(ctx context.Context) outcome {
		holds, err := p.router.VerifyWeight(ctx, rollout, weight, others)
		return outcome{holds: holds, err: err}
	})
	if result.holds && result.err == nil {
		return types.Verified, types.RpcError{}
	}
	return types.NotVerified, result.answer("VerifyWeight", rollout)
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

// answer runs one call of the Router that succeeds or fails.
func (p *Plugin) answer(method string, rollout *v1alpha1.Rollout, call func(context.Context) error) types.RpcError {
	return p.run(method, rollout, func(ctx context.Context) outcome { return outcome{err: call(ctx)} }).answer(method, rollout)
}

// outcome is what came of one call of the Router.
type outcome struct {
	holds bool // VerifyWeight's answer
	err   error
}

// answer is the form in which an error travels. There, an empty text means success, so an error always gets one.
func (o outcome) answer(method string, rollout *v1alpha1.Rollout) types.RpcError {
	if o.err != nil && o.err.Error() == "" {
		return types.RpcError{ErrorString: fmt.Sprintf("%s of rollout %q: an error of type %T without a text", method, NameOf(rollout), o.err)}
	}
	if o.err != nil {
		return types.RpcError{ErrorString: o.err.Error()}
	}
	return types.RpcError{}
}

// run runs one call of the Router within CallTimeout, on the goroutine that net/rpc started for the call: most calls ask nobody anything, and a goroutine more
// would cost them as much as their work. That nothing in a call outlasts its context is for the Router; package apiserver sees to it for requests. A panic of
// call becomes its error.
func (p *Plugin) run(method string, rollout *v1alpha1.Rollout, call func(context.Context) outcome) (result outcome) {
	ctx, cancel := context.WithTimeout(context.Background(), CallTimeout)
	defer cancel()
	defer func() {
		if cause := recover(); cause != nil {
			stack := debug.Stack()
			p.log.ErrorContext(ctx, "panic in a call", "method", method, "rollout", NameOf(rollout), "panic", fmt.Sprint(cause),
				"stack", string(stack[:min(len(stack), maxStack)]))
			result = outcome{err: fmt.Errorf("%s of rollout %q: panic: %v: this is a bug of the plugin, its log has the stack", method, NameOf(rollout), cause)}
		}
	}()
	return call(ctx)
}
