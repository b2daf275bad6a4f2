package routerbench

import (
	"errors"
	"sync"
	"syscall"

	"github.com/argoproj/argo-rollouts/rollout/trafficrouting/plugin/rpc"

	"github.com/kedify/argo-rollouts-plugin/test/kit/pluginprocess"
)

// keeper keeps a plugin as the controller does: one process, started again for the first call after it has ended (argo-rollouts v1.10.1
// rollout/trafficrouting/plugin/client/client.go, startPluginLocked).
type keeper struct {
	start func() (*pluginprocess.Process, error)

	mu      sync.Mutex
	process *pluginprocess.Process // nil before the first call
}

// plugin is the process, which is started where none runs.
func (k *keeper) plugin() (rpc.TrafficRouterPlugin, error) {
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

// errNoPlugin says that no plugin runs.
var errNoPlugin = errors.New("no plugin runs")

// kill ends the process by SIGKILL and tells nobody.
func (k *keeper) kill() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.process == nil {
		return errNoPlugin
	}
	return syscall.Kill(k.process.PID(), syscall.SIGKILL)
}

// end ends the process in good order.
func (k *keeper) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.process != nil {
		k.process.Kill()
	}
}
