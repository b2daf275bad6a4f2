package node

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kedify/argo-rollouts-plugin/localcluster/cluster"
)

// supervisor starts components and restarts them when they exit.
type supervisor struct {
	settings cluster.Settings
	group    *errgroup.Group
	report   *Reporter
}

// startAll starts each component as soon as its dependencies are ready, and returns when all are ready.
func (n *supervisor) startAll(ctx context.Context, components []cluster.Component) error {
	ready := map[string]chan struct{}{}
	for _, c := range components {
		ready[c.Name] = make(chan struct{})
	}
	starts, startCtx := errgroup.WithContext(ctx)
	for _, c := range components {
		starts.Go(func() error {
			for _, name := range c.After {
				select {
				case <-ready[name]:
				case <-startCtx.Done():
					return startCtx.Err()
				}
			}
			p, err := n.start(startCtx, c)
			if err != nil {
				return err
			}
			n.group.Go(func() error { return n.restart(ctx, p) })
			close(ready[c.Name])
			return nil
		})
	}
	return starts.Wait()
}

// start runs one component and waits until it is ready.
func (n *supervisor) start(ctx context.Context, c cluster.Component) (*process, error) {
	began := time.Now()
	p, err := startProcess(n.settings, c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := p.wait(ctx, n.settings); err != nil {
		return nil, err
	}
	n.report.Report(Starting, fmt.Sprintf("%s is ready (%.1f s)", c.Name, time.Since(began).Seconds()))
	return p, nil
}

// restart restarts a component whenever it exits, until the context ends. A component that cannot be started is an
// error that stops the cluster.
func (n *supervisor) restart(ctx context.Context, p *process) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.exited:
		}
		n.report.Report(Ready, fmt.Sprintf("%s exited (%v): restarting it", p.component.Name, p.result))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(restartDelay):
		}
		next, err := startProcess(n.settings, p.component)
		if err != nil {
			return err
		}
		p = next
	}
}
