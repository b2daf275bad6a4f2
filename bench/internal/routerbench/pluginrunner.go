package routerbench

import (
	"errors"
	"sync"
	"syscall"

	"github.com/argoproj/argo-rollouts/rollout/trafficrouting/plugin/rpc"

	"github.com/kedify/argo-rollouts-plugin/test/kit/pluginprocess"
)

// pluginRunner runs a plugin as the controller does: one process, which it restarts for the first call after the
// process has ended (argo-rollouts v1.10.1 rollout/trafficrouting/plugin/client/client.go, startPluginLocked).
type pluginRunner struct {
	start func() (*pluginprocess.Process, error)

	mu      sync.Mutex
	process *pluginprocess.Process // nil before the first call
}

// plugin returns the process. It starts one if none runs.
func (k *pluginRunner) plugin() (rpc.TrafficRouterPlugin, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.process != nil && !k.process.Exited() {
		return k.process, nil
	}
	started, err := k.start()
	if err != nil {
		return nil, err
	}
	k.process = started
	return started, nil
}

// errNoPlugin is returned if no plugin runs.
var errNoPlugin = errors.New("no plugin runs")

// kill kills the process by SIGKILL. The keeper is not notified.
func (k *pluginRunner) kill() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.process == nil {
		return errNoPlugin
	}
	return syscall.Kill(k.process.PID(), syscall.SIGKILL)
}

// end shuts the process down.
func (k *pluginRunner) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.process != nil {
		k.process.Kill()
	}
}
