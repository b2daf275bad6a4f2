package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kedify/argo-rollouts-plugin/localcluster/cluster"
)

// kubeletSysctls are the kernel settings that the kubelet would change for the
// whole machine (k8s.io/kubernetes/pkg/kubelet/cm, setupKernelTunables). The
// cluster shows it files that already hold the wanted values, so it has
// nothing to change.
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

// prepareMounts makes the mount namespace the cluster's own: detached from the
// host, with its own process list and its own folders where components write
// to fixed paths.
func prepareMounts(s cluster.Settings) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("detach the mounts from the host: %w", err)
	}
	// Shared among the cluster's processes: the runtime's mounts must be seen
	// by the kubelet and the other way round.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share the mounts inside the cluster: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	if err := bindFolder(s.Path("logs", "var"), "/var/log"); err != nil {
		return err
	}
	for _, dir := range []string{"/var/lib/cni", "/var/lib/kubelet", "/etc/cni"} {
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("cover the host's %s: %w", dir, err)
		}
	}
	return coverSysctls(s)
}

func bindFolder(source, target string) error {
	if err := os.MkdirAll(source, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", source, err)
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("cover the host's %s: %w", target, err)
	}
	return nil
}

func coverSysctls(s cluster.Settings) error {
	dir := s.Path("sysctl")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
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
			return fmt.Errorf("cover the host's %s: %w", target, err)
		}
	}
	return nil
}
