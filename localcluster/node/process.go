package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/localcluster/cluster"
	"github.com/kedify/argo-rollouts-plugin/localcluster/logtail"
)

// ErrComponent is wrapped by every error of a failed component.
var ErrComponent = errors.New("component failed")

// process is one running component.
type process struct {
	component cluster.Component
	command   *exec.Cmd
	exited    chan struct{} // closed when it has ended
	result    error         // valid after exited
}

// startProcess runs the component and appends its output to its log.
func startProcess(s cluster.Settings, c cluster.Component) (*process, error) {
	log, err := os.OpenFile(logPath(s, c.Name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", c.Name, err)
	}
	defer log.Close()
	command := exec.Command(filepath.Join(s.Bin, c.Name), c.Args...) //nolint:noctx // the command line is this project's; its lifetime is the cluster's
	command.Stdout, command.Stderr = log, log
	command.Env = environment(s)
	command.Dir = s.Dir
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("%w: start %s: %w", ErrComponent, c.Name, err)
	}
	p := &process{component: c, command: command, exited: make(chan struct{})}
	go func() {
		p.result = command.Wait()
		close(p.exited)
	}()
	return p, nil
}

// failure describes a process that has ended, with the end of its log.
func (p *process) failure(s cluster.Settings) error {
	reason := "exited without an error"
	if p.result != nil {
		reason = p.result.Error()
	}
	return fmt.Errorf("%w: %s: %s\n%s", ErrComponent, p.component.Name, reason, logtail.Tail(logPath(s, p.component.Name)))
}

// wait returns when the process is ready, or an error with the reason why it is not.
func (p *process) wait(ctx context.Context, s cluster.Settings) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-p.exited:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := waitFor(ctx, p.component.Ready)
	select {
	case <-p.exited:
		return p.failure(s)
	default:
	}
	if err != nil {
		return fmt.Errorf("%w: %s is not ready (%s): %w\n%s",
			ErrComponent, p.component.Name, p.component.Ready, err, logtail.Tail(logPath(s, p.component.Name)))
	}
	return nil
}

// environment is the environment of components: nothing from the outside.
func environment(s cluster.Settings) []string {
	return []string{
		"PATH=" + strings.Join([]string{s.Path("bin"), s.Bin, "/usr/sbin", "/usr/bin", "/sbin", "/bin"}, ":"),
		"HOME=/root", "KUBECONFIG=" + s.Path("pki", "admin.kubeconfig"),
	}
}

func logPath(s cluster.Settings, name string) string { return s.Path("logs", name+".log") }
