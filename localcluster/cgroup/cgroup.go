// Package cgroup creates the embedded cluster's control group with the controllers that the kubelet requires, and
// removes it. It supports cgroup versions 1 and 2, with and without systemd.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kedify/argo-rollouts-plugin/localcluster/cluster"
)

// root is the mount point of the hierarchies (https://man7.org/linux/man-pages/man7/cgroups.7.html).
const root = "/sys/fs/cgroup"

// Unified reports whether this machine has cgroups version 2.
func Unified() bool {
	var stat unix.Statfs_t
	return unix.Statfs(root, &stat) == nil && stat.Type == unix.CGROUP2_SUPER_MAGIC
}

// folders returns the possible folders of a cluster's cgroup. With version 1 that is one per hierarchy. With version 2
// it is the folder below the root, or the folder of the scope that systemd delegates to the cluster.
func folders(s cluster.Settings) ([]string, error) {
	if Unified() {
		return []string{
			filepath.Join(root, s.Cgroup()),
			filepath.Join(root, "system.slice", ScopeUnit(s.Name)),
		}, nil
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, fmt.Errorf("list the cgroup hierarchies: %w", err)
	}
	var out []string
	for _, entry := range entries {
		if entry.IsDir() {
			out = append(out, filepath.Join(root, entry.Name(), s.Cgroup()))
		}
	}
	return out, nil
}

// Exists reports whether a cluster left its cgroup.
func Exists(s cluster.Settings) bool {
	all, err := folders(s)
	return err == nil && slices.ContainsFunc(all, func(folder string) bool {
		_, err := os.Stat(folder)
		return err == nil
	})
}

// Create creates the cluster's cgroup with the children that the kubelet expects. It returns the folder in which the
// inside of the cluster starts. With version 1 there is none, because only the pods need a cgroup.
func Create(s cluster.Settings) (string, error) {
	if Unified() {
		return delegate(s)
	}
	all, err := folders(s)
	if err != nil {
		return "", err
	}
	for _, folder := range all {
		if err := os.MkdirAll(filepath.Join(folder, "pods"), 0o755); err != nil {
			return "", fmt.Errorf("create the cgroup %s: %w", folder, err)
		}
	}
	return "", nil
}

// Remove kills all processes in the cluster's cgroup, removes the cgroup, and reverts the changes above it. The last
// processes may still be terminating, so it retries until the deadline.
func Remove(s cluster.Settings, deadline time.Duration) error {
	all, err := folders(s)
	if err != nil {
		return err
	}
	moveOut(all)
	limit := time.Now().Add(deadline)
	for {
		var problems []error
		for _, folder := range all {
			problems = append(problems, kill(folder), removeTree(folder))
		}
		err := errors.Join(problems...)
		if err == nil {
			return revert(s)
		}
		if time.Now().After(limit) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// moveOut moves this process out of the folders that are about to be removed: to the root, or to the cgroup that holds
// the processes of a container's root.
func moveOut(folders []string) {
	current, err := ownCgroup()
	if err != nil || !slices.ContainsFunc(folders, func(f string) bool { return strings.HasPrefix(current+"/", f+"/") }) {
		return
	}
	if Move(os.Getpid(), root) != nil {
		_ = Move(os.Getpid(), filepath.Join(root, AsideName)) // the removal reports an error if this mattered
	}
}

// kill kills every process of a cgroup of version 2. Version 1 has no such file; its processes have ended with their
// PID namespace.
func kill(folder string) error {
	err := os.WriteFile(filepath.Join(folder, "cgroup.kill"), []byte("1"), 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// removeTree removes a cgroup and everything below it. The kernel removes a cgroup's files with its folder, so only
// folders are removed, deepest first.
func removeTree(tree string) error {
	var folders []string
	err := filepath.WalkDir(tree, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
			return nil
		}
		if err == nil && entry.IsDir() {
			folders = append(folders, path)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("list the cgroup %s: %w", tree, err)
	}
	for _, folder := range slices.Backward(folders) {
		if err := unix.Rmdir(folder); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove the cgroup %s: %w", folder, err)
		}
	}
	return nil
}
