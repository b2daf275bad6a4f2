package faults

import (
	"context"
	"fmt"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/inside"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
)

// component is a component of the system that the test kills.
type component struct {
	name string
	// program is the executable of its process. An empty program kills nothing.
	program string
	// back reports whether the fault has ended: the killed component works again. before is the result of readState before
	// the kill. Without back the fault ends immediately.
	back func(ctx context.Context, b *testbed.Testbed, victim inside.Process, before stateBefore) (bool, error)
	// down is the usual maximum time from the kill to the end of the fault. The report contains it next to the measured
	// times.
	down time.Duration
	// proxy is true if requests pass through it. router is true if the controller calls it, and restarts it at the next
	// call.
	proxy, router bool
}

const (
	// podDown is the usual maximum restart time of a killed container. The kubelet takes most of it. CoreDNS took 2.1 to
	// 2.8 s in five such kills, the interceptor 1.8 to 2.8 s at the same time. Envoy, whose readiness probe runs every 2
	// s, took 2.8 to 4.6 s, and up to 8.2 s with 20 processes waiting for two cores. If no probe triggers the kubelet, it
	// checks after 10 s whether a container may start again.
	podDown = 15 * time.Second
	// leaderDown is podDown plus the expiry of the killed controller's Lease: 15 s and up to 2.4 s until the next check.
	// Measured were 17 to 30 s, 14 s of them for the start of the container.
	leaderDown = podDown + 25*time.Second
	// nodeDown is the usual maximum restart time of a component of the node. The scheduler, which the test does not wait
	// for, took 0.3 to 0.5 s, etcd 1.0 to 1.3 s and the API server 2.7 to 3.7 s. On a busy machine the start of the API
	// server alone takes 5.4 s.
	nodeDown = 10 * time.Second
)

// components returns all components that a canary must survive without. The first one is the control: the same round
// without a kill.
func components() []component {
	return []component{
		{name: "nothing"},
		// The controller runs a copy of the binary that has the plugin's name, kedify/http.
		{name: "plugin", program: "http", router: true},
		{name: "controller", program: "rollouts-controller", back: isLeader, down: leaderDown},
		{name: "interceptor", program: "interceptor", back: isPodReady, down: podDown},
		{name: "envoy", program: "envoy", back: isPodReady, down: podDown, proxy: true},
		{name: "apiserver", program: "kube-apiserver", back: isServing, down: nodeDown},
		{name: "etcd", program: "etcd", back: isServing, down: nodeDown},
	}
}

// stateBefore is the state that changes when a component works again.
type stateBefore struct {
	holder    string // holder of the controller's Lease
	namespace string
	pod       string
	restarts  int
}

// leaderLease is the Lease of the leading controller of Argo Rollouts.
const leaderLease = "/apis/coordination.k8s.io/v1/namespaces/argo-rollouts/leases/argo-rollouts-controller-lock"

// readState reads the state of a process that is about to be killed.
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

// isLeader reports whether another controller leads than before. A new one waits for the expiry of the killed one's
// Lease.
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

// isPodReady reports whether the container has restarted and is Ready.
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

// isServing reports whether a new process runs and the API server, which depends on etcd for that, is ready.
func isServing(ctx context.Context, b *testbed.Testbed, victim inside.Process, _ stateBefore) (bool, error) {
	now, err := b.Inside.Find(victim.Program())
	if err != nil || len(now) != 1 || now[0].PID == victim.PID {
		return false, err
	}
	return b.Ready(ctx), nil
}

// victim returns the process to kill; turn selects one of several. Each round ends with all of them running.
func victim(b *testbed.Testbed, p component, turn int) (inside.Process, error) {
	if p.program == "" {
		return inside.Process{}, nil
	}
	processes, err := b.Inside.Find(p.program)
	if err != nil {
		return inside.Process{}, err
	}
	if len(processes) == 0 {
		return inside.Process{}, fmt.Errorf("%w: %s", inside.ErrNoProcess, p.program)
	}
	return processes[turn%len(processes)], nil
}
