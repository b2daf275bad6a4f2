package faults

import (
	"context"
	"fmt"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/inside"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
)

// component is a part of the system that is killed.
type component struct {
	name string
	// program is what its process was started by. Nothing is killed without one.
	program string
	// back says that the fault has ended: the part that was killed works again.
	// before is what marks was before. Without it the fault has ended at once.
	back func(ctx context.Context, b *testbed.Testbed, victim inside.Process, before stateBefore) (bool, error)
	// down is the time from the kill to there that is usual at most. It is reported next to the measured times.
	down time.Duration
	// proxy says that requests go through it, router that the controller calls it,
	// and starts it anew when it next does.
	proxy, router bool
}

const (
	// podDown is how long a killed container is usually away. The kubelet takes
	// most of it: CoreDNS, which is not ours, was away for 2.1 to 2.8 s in five such
	// kills, the interceptor for 1.8 to 2.8 s beside it, and Envoy, whose readiness
	// is asked every 2 s, for 2.8 to 4.6 s; up to 8.2 s with 20 processes waiting
	// for two cores. Where no probe wakes the kubelet, it looks 10 s later whether a
	// container may start again.
	podDown = 15 * time.Second
	// leaderDown is podDown and the wait for the dead controller's Lease, 15 s and
	// up to 2.4 s to the next look at it: 17 to 30 s were seen, 14 s of them for the
	// container's start.
	leaderDown = podDown + 25*time.Second
	// nodeDown is how long a component of the node is usually away. The
	// scheduler, which nobody here waits for, was away for 0.3 to 0.5 s, etcd for 1.0
	// to 1.3 s and the API server for 2.7 to 3.7 s; on a busy machine that takes 5.4 s
	// for its start alone.
	nodeDown = 10 * time.Second
)

// components are all parts whose death a canary has to survive, after the control run:
// the same round with nobody killed.
func components() []component {
	return []component{
		{name: "nothing"},
		// The controller runs a copy of the plugin under the plugin's name, kedify/http.
		{name: "plugin", program: "http", router: true},
		{name: "controller", program: "rollouts-controller", back: isLeader, down: leaderDown},
		{name: "interceptor", program: "interceptor", back: isPodReady, down: podDown},
		{name: "envoy", program: "envoy", back: isPodReady, down: podDown, proxy: true},
		{name: "apiserver", program: "kube-apiserver", back: isServing, down: nodeDown},
		{name: "etcd", program: "etcd", back: isServing, down: nodeDown},
	}
}

// stateBefore is what changes when a part has come back.
type stateBefore struct {
	holder    string // of the controller's Lease
	namespace string
	pod       string
	restarts  int
}

// leaderLease is the Lease by which a controller of Argo Rollouts leads.
const leaderLease = "/apis/coordination.k8s.io/v1/namespaces/argo-rollouts/leases/argo-rollouts-controller-lock"

// readState reads the mark of a process that is about to be killed.
func readState(ctx context.Context, b *testbed.Testbed, p component, victim inside.Process) (stateBefore, error) {
	var m stateBefore
	var err error
	switch p.name {
	case "controller":
		m.holder, err = holder(ctx, b)
		return m, err
	case "interceptor":
		m.namespace = "keda"
	case "envoy":
		m.namespace = testbed.Namespace
	default:
		return m, nil
	}
	if m.pod, err = victim.Pod(); err != nil {
		return m, err
	}
	m.restarts, _, err = container(ctx, b, m)
	return m, err
}

// isLeader says that another controller leads than before: a new one waits for the
// Lease of the dead one to run out.
func isLeader(ctx context.Context, b *testbed.Testbed, _ inside.Process, before stateBefore) (bool, error) {
	now, err := holder(ctx, b)
	return now != "" && now != before.holder, err
}

func holder(ctx context.Context, b *testbed.Testbed) (string, error) {
	var lease struct {
		Spec struct {
			HolderIdentity string `json:"holderIdentity"`
		} `json:"spec"`
	}
	err := b.Get(ctx, leaderLease, &lease)
	return lease.Spec.HolderIdentity, err
}

// isPodReady says that the container was started anew and is Ready.
func isPodReady(ctx context.Context, b *testbed.Testbed, _ inside.Process, before stateBefore) (bool, error) {
	restarts, ready, err := container(ctx, b, before)
	return restarts > before.restarts && ready, err
}

func container(ctx context.Context, b *testbed.Testbed, m stateBefore) (restarts int, ready bool, err error) {
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

// isServing says that a new process runs and that the API server, which asks etcd
// for that, says it is ready.
func isServing(ctx context.Context, b *testbed.Testbed, victim inside.Process, _ stateBefore) (bool, error) {
	now, err := b.Inside.Find(victim.Program())
	if err != nil || len(now) != 1 || now[0].PID == victim.PID {
		return false, err
	}
	return b.Ready(ctx), nil
}

// victim finds the process to be killed; turn chooses one of several. Each round
// ends with all of them alive.
func victim(b *testbed.Testbed, p component, turn int) (inside.Process, error) {
	if p.program == "" {
		return inside.Process{}, nil
	}
	found, err := b.Inside.Find(p.program)
	if err != nil {
		return inside.Process{}, err
	}
	if len(found) == 0 {
		return inside.Process{}, fmt.Errorf("%w: %s", inside.ErrNoProcess, p.program)
	}
	return found[turn%len(found)], nil
}
