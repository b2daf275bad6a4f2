package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/kedify/argo-rollouts-plugin/localcluster/cluster"
)

// The node has a root file system of its own, in memory. Components write to fixed paths (/opt/containerd,
// /var/lib/kubelet, /etc/cni, ~/.kube), and the paths change between versions. With this root the kernel removes all of
// that with the mount namespace. Of the host the node sees, read-only, its programs, its libraries and the folders of
// the settings, and also the run directory.

// systemFolders are the folders of the host's root with programs and libraries
// (https://refspecs.linuxfoundation.org/FHS_3.0/). With a merged /usr all but one are links.
func systemFolders() []string {
	return []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"}
}

// systemFiles are files of the host that programs need: user names, and the paths of libraries and alternatives.
func systemFiles() []string {
	return []string{"etc/passwd", "etc/group", "etc/nsswitch.conf", "etc/ld.so.cache", "etc/alternatives"}
}

// devices are the host's devices that the node and its containers need.
func devices() []string {
	return []string{"null", "zero", "full", "random", "urandom", "tty", "kmsg", "fuse"}
}

// enterRoot makes the mount namespace the cluster's own, and its root the one described above. Call it on the thread
// that later starts the node's processes.
func enterRoot(s cluster.Settings) error {
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	root := s.Path("root")
	if err := mountNew("tmpfs", root, unix.MS_NOSUID, "mode=755"); err != nil {
		return err
	}
	for _, step := range []func(string, cluster.Settings) error{mountSystem, mountDevices, mountKernel, mountFolders} {
		if err := step(root, s); err != nil {
			return err
		}
	}
	if err := pivot(root); err != nil {
		return err
	}
	// Mounts are shared among the cluster's processes: the kubelet must see the runtime's mounts and the reverse.
	if err := mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return err
	}
	return coverSysctls(s)
}

// mountSystem mounts the host's programs, libraries and a few of its files.
func mountSystem(root string, s cluster.Settings) error {
	for _, folder := range systemFolders() {
		source := filepath.Join("/", folder)
		target, err := os.Readlink(source)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err == nil:
			err = os.Symlink(target, filepath.Join(root, folder))
		default:
			err = bindReadOnly(source, filepath.Join(root, folder))
		}
		if err != nil {
			return fmt.Errorf("mount %s for the node: %w", source, err)
		}
	}
	for _, file := range systemFiles() {
		source := filepath.Join("/", file)
		if _, err := os.Stat(source); err != nil {
			continue // not every distribution has it
		}
		if err := bindReadOnly(source, filepath.Join(root, file)); err != nil {
			return err
		}
	}
	for file, content := range ownFiles(s) {
		if err := writeFile(filepath.Join(root, file), content, false); err != nil {
			return err
		}
	}
	return nil
}

// ownFiles replace files of the host: pods start with copies of them.
func ownFiles(s cluster.Settings) map[string]string {
	return map[string]string{
		"etc/hosts":       "127.0.0.1 localhost\n" + s.Addresses.Node + " " + cluster.NodeName + "\n",
		"etc/hostname":    cluster.NodeName + "\n",
		"etc/resolv.conf": cluster.ResolvConf(s),
	}
}

// mountFolders mounts the folders of the settings at their own paths, which may be below one that was mounted before,
// such as /tmp. The run directory comes last: it may be in one of the others.
func mountFolders(root string, s cluster.Settings) error {
	for _, folder := range s.Reads {
		if err := bindReadOnly(folder, filepath.Join(root, folder)); err != nil {
			return err
		}
	}
	if err := bind(s.Dir, filepath.Join(root, s.Dir)); err != nil {
		return err
	}
	if err := os.MkdirAll(s.Path("logs", "var"), 0o755); err != nil {
		return fmt.Errorf("create the log folder: %w", err)
	}
	return bind(s.Path("logs", "var"), filepath.Join(root, "var", "log"))
}

// mountDevices creates a /dev with the devices that every container has.
func mountDevices(root string, _ cluster.Settings) error {
	dev := filepath.Join(root, "dev")
	if err := mountNew("tmpfs", dev, unix.MS_NOSUID, "mode=755"); err != nil {
		return err
	}
	for _, device := range devices() {
		source := filepath.Join("/dev", device)
		if _, err := os.Stat(source); err != nil {
			continue // a container may lack it
		}
		if err := bind(source, filepath.Join(dev, device)); err != nil {
			return err
		}
	}
	if err := mountNew("devpts", filepath.Join(dev, "pts"), unix.MS_NOSUID|unix.MS_NOEXEC,
		"newinstance,ptmxmode=0666,mode=0620"); err != nil {
		return err
	}
	for path, target := range map[string]string{
		"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2",
	} {
		if err := os.Symlink(target, filepath.Join(dev, path)); err != nil {
			return fmt.Errorf("make /dev/%s: %w", path, err)
		}
	}
	if err := mountNew("mqueue", filepath.Join(dev, "mqueue"), unix.MS_NOSUID|unix.MS_NOEXEC|unix.MS_NODEV,
		""); err != nil {
		return err
	}
	return mountNew("tmpfs", filepath.Join(dev, "shm"), unix.MS_NOSUID|unix.MS_NODEV, "mode=1777")
}

// mountKernel mounts the kernel's file systems as the node's namespaces see them. With cgroups of version 2 the node's
// own cgroup is the root of the mount; with version 1 the node sees the host's hierarchy.
func mountKernel(root string, s cluster.Settings) error {
	const plain = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	for _, m := range []struct{ kind, path, options string }{
		{"proc", "proc", ""}, {"sysfs", "sys", ""}, {"tmpfs", "run", "mode=755"}, {"tmpfs", "tmp", "mode=1777"},
	} {
		flags := uintptr(plain)
		if m.kind == "tmpfs" {
			flags = unix.MS_NOSUID | unix.MS_NODEV
		}
		if err := mountNew(m.kind, filepath.Join(root, m.path), flags, m.options); err != nil {
			return err
		}
	}
	cgroups := filepath.Join(root, "sys", "fs", "cgroup")
	if s.UnifiedCgroups {
		return mount("cgroup2", cgroups, "cgroup2", plain, "")
	}
	return mount("/sys/fs/cgroup", cgroups, "", unix.MS_BIND|unix.MS_REC, "")
}

// pivot makes a folder the root of this mount namespace and unmounts the old one (pivot_root(2), the variant with two
// equal paths).
func pivot(root string) error {
	if err := os.Chdir(root); err != nil {
		return fmt.Errorf("enter the node's root: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("create %s the node's root: %w", root, err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the host's root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return fmt.Errorf("enter the node's root: %w", err)
	}
	return nil
}

// bind bind-mounts a folder or file of the host, including its submounts, at a path that it creates.
func bind(source, target string) error {
	stat, err := os.Stat(source)
	if err != nil {
		return fmt.Errorf("mount %s for the node: %w", source, err)
	}
	if stat.IsDir() {
		err = os.MkdirAll(target, 0o755)
	} else if err = os.MkdirAll(filepath.Dir(target), 0o755); err == nil {
		err = os.WriteFile(target, nil, 0o644)
	}
	if err != nil {
		return fmt.Errorf("mount %s for the node: %w", source, err)
	}
	return mount(source, target, "", unix.MS_BIND|unix.MS_REC, "")
}

// bindReadOnly is bind with read-only mounts, including submounts (mount_setattr(2), Linux 5.12).
func bindReadOnly(source, target string) error {
	if err := bind(source, target); err != nil {
		return err
	}
	attributes := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, target, unix.AT_RECURSIVE, attributes); err != nil {
		return fmt.Errorf("mount %s for the node read-only: %w", source, err)
	}
	return nil
}

// mountNew mounts a new file system on a folder that it creates.
func mountNew(kind, target string, flags uintptr, options string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return fmt.Errorf("create %s: %w", target, err)
	}
	return mount(kind, target, kind, flags, options)
}

func mount(source, target, kind string, flags uintptr, options string) error {
	if err := unix.Mount(source, target, kind, flags, options); err != nil {
		return fmt.Errorf("mount %s %s on %s: %w", kind, source, target, err)
	}
	return nil
}
