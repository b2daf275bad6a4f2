package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
)

// CallTimeout is the deadline of each call of a Router. The controller waits for the result without a timeout, on one
// of its 10 workers; it repeats a failed call at the next reconcile.
const CallTimeout = 9 * time.Second

// maxStack is the maximum length of a logged stack in bytes. go-plugin parses log lines of up to 64 KiB.
const maxStack = 32 << 10

// Plugin serves a Router. It implements TrafficRouterPlugin of argo-rollouts' rollout/trafficrouting/plugin/rpc.
type Plugin struct {
	router Router
	log    *slog.Logger
}

// NewPlugin returns a Plugin for router that logs panics to log. It does not log errors: the controller logs the errors
// that it receives.
func NewPlugin(router Router, log *slog.Logger) *Plugin {
	return &Plugin{router: router, log: log}
}

// InitPlugin always succeeds. The controller never repeats a failed InitPlugin and keeps using the instance. So
// conditions that can change (an API server that is not up yet, a missing kubeconfig) are no errors here: routers
// connect in their first call and return the error then.
func (*Plugin) InitPlugin() types.RpcError { return types.RpcError{} }

// Type calls Router.Type.
func (p *Plugin) Type() string { return p.router.Type() }

// SetWeight calls Router.SetWeight.
func (p *Plugin) SetWeight(
	rollout *v1alpha1.Rollout, weight int32, others []v1alpha1.WeightDestination,
) types.RpcError {
	result := p.callForError("SetWeight", rollout, func(ctx context.Context) error {
		return p.router.SetWeight(ctx, rollout, weight, others)
	})
	// The controller uses the text as the format of its Event (rollout/trafficrouting.go of Argo Rollouts 1.10).
	result.ErrorString = strings.ReplaceAll(result.ErrorString, "%", "%%")
	return result
}

// VerifyWeight calls Router.VerifyWeight.
func (p *Plugin) VerifyWeight(
	rollout *v1alpha1.Rollout, weight int32, others []v1alpha1.WeightDestination,
) (types.RpcVerified, types.RpcError) {
	result := p.call("VerifyWeight", rollout, func(ctx context.Context) outcome {
		verified, err := p.router.VerifyWeight(ctx, rollout, weight, others)
		return outcome{verified: verified, err: err}
	})
	switch {
	case errors.Is(result.err, ErrUndecided):
		return types.NotImplemented, types.RpcError{}
	case result.verified && result.err == nil:
		return types.Verified, types.RpcError{}
	}
	return types.NotVerified, result.rpcError("VerifyWeight", rollout)
}

// UpdateHash calls Router.UpdateHash.
func (p *Plugin) UpdateHash(
	rollout *v1alpha1.Rollout, canaryHash, stableHash string, others []v1alpha1.WeightDestination,
) types.RpcError {
	return p.callForError("UpdateHash", rollout, func(ctx context.Context) error {
		return p.router.UpdateHash(ctx, rollout, canaryHash, stableHash, others)
	})
}

// SetHeaderRoute calls Router.SetHeaderRoute.
func (p *Plugin) SetHeaderRoute(rollout *v1alpha1.Rollout, route *v1alpha1.SetHeaderRoute) types.RpcError {
	return p.callForError("SetHeaderRoute", rollout, func(ctx context.Context) error {
		return p.router.SetHeaderRoute(ctx, rollout, route)
	})
}

// SetMirrorRoute calls Router.SetMirrorRoute.
func (p *Plugin) SetMirrorRoute(rollout *v1alpha1.Rollout, route *v1alpha1.SetMirrorRoute) types.RpcError {
	return p.callForError("SetMirrorRoute", rollout, func(ctx context.Context) error {
		return p.router.SetMirrorRoute(ctx, rollout, route)
	})
}

// RemoveManagedRoutes calls Router.RemoveManagedRoutes.
func (p *Plugin) RemoveManagedRoutes(rollout *v1alpha1.Rollout) types.RpcError {
	return p.callForError("RemoveManagedRoutes", rollout, func(ctx context.Context) error {
		return p.router.RemoveManagedRoutes(ctx, rollout)
	})
}

// callForError makes a call of the Router that returns only an error.
func (p *Plugin) callForError(
	method string, rollout *v1alpha1.Rollout, call func(context.Context) error,
) types.RpcError {
	result := p.call(method, rollout, func(ctx context.Context) outcome { return outcome{err: call(ctx)} })
	return result.rpcError(method, rollout)
}

// outcome is the result of one call of the Router.
type outcome struct {
	verified bool // the result of VerifyWeight
	err      error
}

// rpcError converts the error for RPC. An empty text means success there, so an error always gets a text.
func (o outcome) rpcError(method string, rollout *v1alpha1.Rollout) types.RpcError {
	if o.err != nil && o.err.Error() == "" {
		return types.RpcError{ErrorString: fmt.Sprintf("%s of rollout %q: error of type %T without a text", method,
			NameOf(rollout), o.err)}
	}
	if o.err != nil {
		return types.RpcError{ErrorString: o.err.Error()}
	}
	return types.RpcError{}
}

// call makes one call of the Router within CallTimeout, on the goroutine that net/rpc started for it: most calls send
// no request, and another goroutine would cost as much as their work. The Router must not outlast its context; package
// kube ensures that for requests. A panic becomes the error of the call.
func (p *Plugin) call(method string, rollout *v1alpha1.Rollout, call func(context.Context) outcome) (result outcome) {
	ctx, cancel := context.WithTimeout(context.Background(), CallTimeout)
	defer cancel()
	defer func() {
		if cause := recover(); cause != nil {
			stack := debug.Stack()
			p.log.ErrorContext(ctx, "panic in a call", "method", method, "rollout", NameOf(rollout), "panic", fmt.Sprint(cause),
				"stack", string(stack[:min(len(stack), maxStack)]))
			result = outcome{err: fmt.Errorf("%s of rollout %q: panic: %v: this is a bug of the plugin, see the stack in its "+
				"log", method, NameOf(rollout), cause)}
		}
	}()
	return call(ctx)
}
