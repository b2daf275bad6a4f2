package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupRoot is where the hierarchies are mounted
// (https://man7.org/linux/man-pages/man7/cgroups.7.html).
const cgroupRoot = "/sys/fs/cgroup"

// hierarchies returns the mount points of the cgroup hierarchies: one with
// cgroup v2, one per controller with v1.
func hierarchies() ([]string, error) {
	if isUnified() {
		return []string{cgroupRoot}, nil
	}
	entries, err := os.ReadDir(cgroupRoot)
	if err != nil {
		return nil, fmt.Errorf("list the cgroup hierarchies: %w", err)
	}
	var out []string
	for _, entry := range entries {
		if entry.IsDir() {
			out = append(out, filepath.Join(cgroupRoot, entry.Name()))
		}
	}
	return out, nil
}

func isUnified() bool {
	var stat unix.Statfs_t
	return unix.Statfs(cgroupRoot, &stat) == nil && stat.Type == unix.CGROUP2_SUPER_MAGIC
}

// createCgroup makes the cluster's cgroup in every hierarchy, with the part
// below it that the kubelet keeps the pods in.
func createCgroup(path string) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		if err := os.MkdirAll(filepath.Join(root, path, "pods"), 0o755); err != nil {
			return fmt.Errorf("make the cgroup %s: %w; a container without cgroups of its own cannot run the cluster: use kind there", path, err)
		}
	}
	return nil
}

// enterCgroup moves a process out of the caller's session, which systemd may
// end, into the cluster's cgroup. With v1 only the pods need one.
func enterCgroup(path string, pid int) error {
	if !isUnified() {
		return nil
	}
	leaf := filepath.Join(cgroupRoot, path, "node")
	if err := os.MkdirAll(leaf, 0o755); err != nil {
		return fmt.Errorf("make the cgroup %s: %w", leaf, err)
	}
	if err := os.WriteFile(filepath.Join(leaf, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o600); err != nil {
		return fmt.Errorf("enter the cgroup %s: %w", leaf, err)
	}
	return nil
}

// removeCgroup removes the cluster's cgroup from every hierarchy. Its last
// processes may still be on their way out, so it tries until the deadline.
func removeCgroup(path string, deadline time.Duration) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	limit := time.Now().Add(deadline)
	for {
		var problems []error
		for _, root := range roots {
			problems = append(problems, removeTree(filepath.Join(root, path)))
		}
		err := errors.Join(problems...)
		if err == nil || time.Now().After(limit) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// removeTree removes a cgroup with all below it. A cgroup's files cannot be
// removed and go with it, so only folders count, deepest first.
func removeTree(root string) error {
	var folders []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && entry.IsDir() {
			folders = append(folders, path)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("list the cgroup %s: %w", root, err)
	}
	for _, folder := range slices.Backward(folders) {
		if err := unix.Rmdir(folder); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove the cgroup %s: %w", folder, err)
		}
	}
	return nil
}
