// Package cgroup gives the embedded cluster its control group, with the
// controllers that the kubelet asks for, on machines with cgroups of version 1 and
// of version 2, with systemd and without, and takes all of that back.
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

// root is where the hierarchies are mounted
// (https://man7.org/linux/man-pages/man7/cgroups.7.html).
const root = "/sys/fs/cgroup"

// Unified tells whether this machine has cgroups version 2.
func Unified() bool {
	var stat unix.Statfs_t
	return unix.Statfs(root, &stat) == nil && stat.Type == unix.CGROUP2_SUPER_MAGIC
}

// folders lists the folders that a cluster's cgroup may have: one for each
// hierarchy with version 1; with version 2 the one below the root, or that of
// the scope that systemd delegates to the cluster.
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

// Exists tells whether a cluster left its cgroup.
func Exists(s cluster.Settings) bool {
	all, err := folders(s)
	return err == nil && slices.ContainsFunc(all, func(folder string) bool {
		_, err := os.Stat(folder)
		return err == nil
	})
}

// Create makes the cluster's cgroup, with what the kubelet expects in it, and
// returns the folder that the inside of the cluster starts in; with version
// 1 there is none: only the pods need a cgroup.
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
			return "", fmt.Errorf("make the cgroup %s: %w", folder, err)
		}
	}
	return "", nil
}

// Remove ends whatever is left in the cluster's cgroup, removes it, and takes
// back what was changed above it. Its last processes may still be on their way
// out, so it tries until the deadline has passed.
func Remove(s cluster.Settings, deadline time.Duration) error {
	all, err := folders(s)
	if err != nil {
		return err
	}
	leave(all)
	limit := time.Now().Add(deadline)
	for {
		var problems []error
		for _, folder := range all {
			problems = append(problems, kill(folder), removeTree(folder))
		}
		err := errors.Join(problems...)
		if err == nil {
			return takeBack(s)
		}
		if time.Now().After(limit) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// leave moves this process out of the folders that are to be removed: to the
// root, or to where the processes of a container's root are kept.
func leave(folders []string) {
	own, err := ownCgroup()
	if err != nil || !slices.ContainsFunc(folders, func(f string) bool { return strings.HasPrefix(own+"/", f+"/") }) {
		return
	}
	if Move(os.Getpid(), root) != nil {
		_ = Move(os.Getpid(), filepath.Join(root, AsideName)) // the removal says if this mattered
	}
}

// kill ends every process of a cgroup of version 2; version 1 has no such
// file, and its processes have ended with their PID namespace.
func kill(folder string) error {
	err := os.WriteFile(filepath.Join(folder, "cgroup.kill"), []byte("1"), 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// removeTree removes a cgroup with all below it. A cgroup's files cannot be
// removed and go with it, so only folders count, deepest first.
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
