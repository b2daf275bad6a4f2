package inside

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNotRunning means that no cluster runs there.
var ErrNotRunning = errors.New("no cluster runs there")

// Cluster gives root access to a running cluster from the host.
type Cluster struct {
	root int // the first process of its PID namespace
}

// Open opens the cluster with the first process node, which `localcluster status` reports.
func Open(node int) (*Cluster, error) {
	if first, lives := readProcess(node); !lives || first.NamespacePID != 1 {
		return nil, fmt.Errorf("%w: process %d is not the first one of a namespace", ErrNotRunning, node)
	}
	return &Cluster{root: node}, nil
}

// Find returns the cluster's processes of a program, such as "etcd", sorted by id.
func (c *Cluster) Find(program string) ([]Process, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(descendants(all, c.root), func(p Process) bool { return p.Program() != program }), nil
}

// FindInPod returns the first process of a program in a Pod.
func (c *Cluster) FindInPod(program, pod string) (Process, error) {
	all, err := c.Find(program)
	if err != nil {
		return Process{}, err
	}
	for _, process := range all {
		if name, err := process.Pod(); err == nil && name == pod {
			return process, nil
		}
	}
	return Process{}, fmt.Errorf("%w: %s of Pod %s", ErrNoProcess, program, pod)
}

// dialTimeout is the time limit of a connection within one machine.
const dialTimeout = 2 * time.Second

// Dial connects to an address of the cluster's network, such as that of a Pod or the node's 127.0.0.1.
func (c *Cluster) Dial(ctx context.Context, address netip.AddrPort) (net.Conn, error) {
	return dialFrom(ctx, c.root, address)
}

// DialPod connects to an address from within a Pod in which a program runs: 127.0.0.1 is the loopback address of the
// Pod.
func (c *Cluster) DialPod(ctx context.Context, program, pod string, address netip.AddrPort) (net.Conn, error) {
	process, err := c.FindInPod(program, pod)
	if err != nil {
		return nil, err
	}
	return dialFrom(ctx, process.PID, address)
}

// dialFrom connects to an address from the network namespace of a process.
//
// A socket stays in the network namespace of the thread that creates it. Only that thread has to enter the namespace,
// and only for that moment.
func dialFrom(ctx context.Context, pid int, address netip.AddrPort) (net.Conn, error) {
	type dialled struct {
		conn net.Conn
		err  error
	}
	done := make(chan dialled, 1)
	go func() {
		conn, err := dialInNamespace(ctx, pid, address)
		done <- dialled{conn, err}
	}()
	d := <-done
	if d.err != nil {
		return nil, fmt.Errorf("connect to %s in the cluster: %w", address, d.err)
	}
	return d.conn, nil
}

// dialInNamespace enters the network namespace of a process, dials, and returns to the host's. It runs in a goroutine
// of its own. If the return fails, the thread ends with the goroutine, because it stays locked.
func dialInNamespace(ctx context.Context, pid int, address netip.AddrPort) (net.Conn, error) {
	runtime.LockOSThread()
	here, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	defer here.Close()
	there, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), "ns", "net"))
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("enter the network namespace: %w", err)
	}
	//testbounds:allow the caller connects again until Patience ends
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp4", address.String())
	if back := unix.Setns(int(here.Fd()), unix.CLONE_NEWNET); back == nil {
		runtime.UnlockOSThread()
	}
	return conn, err
}

// DialContext is Dial with the arguments of net.Dialer.DialContext. The address must be numeric.
func (c *Cluster) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	parsed, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, fmt.Errorf("an address of the cluster has to be a number: %w", err)
	}
	return c.Dial(ctx, parsed)
}

// Transport returns a transport that connects to addresses of the cluster's network.
func (c *Cluster) Transport() *http.Transport {
	return &http.Transport{DialContext: c.DialContext}
}
