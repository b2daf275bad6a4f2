package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kedify/argo-rollouts-plugin/localcluster/cgroup"
	"github.com/kedify/argo-rollouts-plugin/localcluster/cluster"
)

// kubeletSysctls are the kernel settings that the kubelet would change for the whole machine
// (k8s.io/kubernetes/pkg/kubelet/cm, setupKernelTunables). The cluster mounts files that already contain the required
// values, so the kubelet has nothing to change.
func kubeletSysctls() map[string]string {
	return map[string]string{
		"vm/overcommit_memory":      "1",
		"vm/panic_on_oom":           "0",
		"kernel/panic":              "10",
		"kernel/panic_on_oops":      "1",
		"kernel/keys/root_maxkeys":  "1000000",
		"kernel/keys/root_maxbytes": "25000000",
	}
}

func coverSysctls(s cluster.Settings) error {
	dir := s.Path("sysctl")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create %s: %w", dir, err)
	}
	for name, value := range kubeletSysctls() {
		target := filepath.Join("/proc/sys", name)
		if _, err := os.Stat(target); err != nil {
			continue // this kernel has no such setting
		}
		source := filepath.Join(dir, strings.ReplaceAll(name, "/", "."))
		if err := os.WriteFile(source, []byte(value+"\n"), 0o600); err != nil {
			return fmt.Errorf("write %s: %w", source, err)
		}
		if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount over the host's %s: %w", target, err)
		}
	}
	return nil
}

// delegateCgroup delegates the controllers of the node's cgroup, which is the root of its cgroup namespace, to the
// pods. This process moves into a leaf cgroup, which all other processes of the node inherit (cgroup_namespaces(7)).
func delegateCgroup() error {
	const root = "/sys/fs/cgroup"
	for _, folder := range []string{"node", "pods"} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			return fmt.Errorf("create the node's cgroups: %w", err)
		}
	}
	if err := cgroup.Move(os.Getpid(), filepath.Join(root, "node")); err != nil {
		return err
	}
	if err := cgroup.DelegateControllers(root); err != nil {
		return err
	}
	return cgroup.DelegateControllers(filepath.Join(root, "pods"))
}
