package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/bed"
	"github.com/kedify/argo-rollouts-plugin/e2e/inside"
)

// downLimit bounds the time from a kill to the part's return: that is not what
// is measured here, but nothing can be measured before.
const downLimit = 2 * time.Minute

// part is a part of the system that is killed.
type part struct {
	name string
	// program is what its process was started by.
	program string
	// back says that the fault has ended: the part that was killed works again.
	// before is what marks was before.
	back func(ctx context.Context, b *bed.Bed, victim inside.Process, before mark) (bool, error)
	// proxy says that requests go through it.
	proxy bool
}

// parts are all parts whose death a canary has to survive.
func parts() []part {
	return []part{
		// The controller runs a copy of the plugin under the plugin's name, kedify/http.
		{name: "plugin", program: "http", back: atOnce},
		{name: "controller", program: "rollouts-controller", back: leads},
		{name: "interceptor", program: "interceptor", back: podReady},
		{name: "envoy", program: "envoy", back: podReady, proxy: true},
		{name: "apiserver", program: "kube-apiserver", back: serves},
		{name: "etcd", program: "etcd", back: serves},
	}
}

// mark is what changes when a part has come back.
type mark struct {
	holder    string // of the controller's Lease
	namespace string
	pod       string
	restarts  int
}

// leaderLease is the Lease by which a controller of Argo Rollouts leads.
const leaderLease = "/apis/coordination.k8s.io/v1/namespaces/argo-rollouts/leases/argo-rollouts-controller-lock"

// markOf reads the mark of a process that is about to be killed.
func markOf(ctx context.Context, b *bed.Bed, p part, victim inside.Process) (mark, error) {
	var m mark
	var err error
	switch p.name {
	case "controller":
		m.holder, err = holder(ctx, b)
		return m, err
	case "interceptor":
		m.namespace = "keda"
	case "envoy":
		m.namespace = bed.Namespace
	default:
		return m, nil
	}
	if m.pod, err = victim.Pod(); err != nil {
		return m, err
	}
	m.restarts, _, err = container(ctx, b, m)
	return m, err
}

// atOnce is for the plugin: the controller starts it anew when it next needs it,
// so there is nothing to wait for.
func atOnce(context.Context, *bed.Bed, inside.Process, mark) (bool, error) { return true, nil }

// leads says that another controller leads than before: a new one waits for the
// Lease of the dead one to run out.
func leads(ctx context.Context, b *bed.Bed, _ inside.Process, before mark) (bool, error) {
	now, err := holder(ctx, b)
	return now != "" && now != before.holder, err
}

func holder(ctx context.Context, b *bed.Bed) (string, error) {
	var lease struct {
		Spec struct {
			HolderIdentity string `json:"holderIdentity"`
		} `json:"spec"`
	}
	err := b.Get(ctx, leaderLease, &lease)
	return lease.Spec.HolderIdentity, err
}

// podReady says that the container was started anew and is Ready.
func podReady(ctx context.Context, b *bed.Bed, _ inside.Process, before mark) (bool, error) {
	restarts, ready, err := container(ctx, b, before)
	return restarts > before.restarts && ready, err
}

func container(ctx context.Context, b *bed.Bed, m mark) (restarts int, ready bool, err error) {
	var pod struct {
		Status struct {
			ContainerStatuses []struct {
				RestartCount int  `json:"restartCount"`
				Ready        bool `json:"ready"`
			} `json:"containerStatuses"`
		} `json:"status"`
	}
	if err := b.Get(ctx, "/api/v1/namespaces/"+m.namespace+"/pods/"+m.pod, &pod); err != nil {
		return 0, false, err
	}
	for _, c := range pod.Status.ContainerStatuses {
		return c.RestartCount, c.Ready, nil
	}
	return 0, false, fmt.Errorf("pod %s/%s has no container status", m.namespace, m.pod)
}

// serves says that a new process runs and that the API server, which asks etcd
// for that, says it is ready.
func serves(ctx context.Context, b *bed.Bed, victim inside.Process, _ mark) (bool, error) {
	now, err := b.Inside.Find(victim.Program())
	if err != nil || len(now) != 1 || now[0].PID == victim.PID {
		return false, err
	}
	return b.Ready(ctx), nil
}

const (
	// findLimit bounds the wait for a process that is between two lives.
	findLimit = 30 * time.Second
	// nudgePause is the time between two nudges.
	nudgePause = time.Second
)

// victim finds the process to be killed; turn chooses one of several. The
// controller starts a plugin that has died when it next has something to do: a
// Rollout that is changed in a way that means nothing is that.
func victim(ctx context.Context, b *bed.Bed, p part, turn int) (inside.Process, error) {
	ctx, cancel := context.WithTimeout(ctx, findLimit)
	defer cancel()
	ticks := time.NewTicker(nudgePause)
	defer ticks.Stop()
	for {
		found, err := b.Inside.Find(p.program)
		if len(found) > 0 {
			return found[turn%len(found)], nil
		}
		if p.name == "plugin" {
			err = errors.Join(err, b.MergePatch(ctx, bed.RolloutPath, map[string]any{
				"metadata": map[string]any{"annotations": map[string]string{"faults.example.com/nudge": time.Now().String()}},
			}, nil))
		}
		select {
		case <-ctx.Done():
			return inside.Process{}, errors.Join(fmt.Errorf("%w: %s (%s)", inside.ErrNoProcess, p.program, findLimit), err)
		case <-ticks.C:
		}
	}
}
