package cgroup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kedify/argo-rollouts-plugin/localcluster/cluster"
)

// The files of a cgroup of version 2
// (https://docs.kernel.org/admin-guide/cgroup-v2.html).
const (
	controllersFile = "cgroup.controllers"
	subtreeFile     = "cgroup.subtree_control"
	procsFile       = "cgroup.procs"
)

// RecordFile is the name, in the run directory, of the record of changes above the cluster's own cgroup. It exists
// until all of them are reverted.
const RecordFile = "cgroup.json"

// AsideName is the cgroup that holds the processes of a container's root cgroup while a cluster runs: a cgroup that
// delegates controllers must not have processes.
const AsideName = "kedify-localcluster-aside"

// delegation records the changes of a cluster above its own cgroup. The record is written before the change, so that a
// cleanup can always revert it.
type delegation struct {
	// Enabled are the controllers that the root did not delegate before.
	Enabled []string `json:"enabled"`
	// Aside reports whether the root's processes were moved to AsideName.
	Aside bool `json:"aside"`
}

// ScopeUnit returns the name of the systemd unit that a cluster runs in.
func ScopeUnit(name string) string { return "kedify-localcluster-" + name + ".scope" }

// delegate creates the cluster's cgroup of version 2:
//
//	BASE/supervisor   this process
//	BASE/cluster      the root of the cluster's cgroup namespace
//
// BASE is the scope in which systemd started this process, and to which systemd delegated the controllers. Without
// systemd it is a cgroup below the root. A cgroup either has processes or delegates controllers. So controllers are
// enabled level by level before any process is moved below.
func delegate(s cluster.Settings) (string, error) {
	base, err := ownCgroup()
	if err != nil {
		return "", err
	}
	if filepath.Base(base) != ScopeUnit(s.Name) {
		base = filepath.Join(root, s.Cgroup())
		if err := delegateFromRoot(s); err != nil {
			return "", err
		}
	}
	for _, folder := range []string{"supervisor", "cluster"} {
		if err := os.MkdirAll(filepath.Join(base, folder), 0o755); err != nil {
			return "", fmt.Errorf("create the cgroup %s: %w", base, err)
		}
	}
	if err := Move(os.Getpid(), filepath.Join(base, "supervisor")); err != nil {
		return "", err
	}
	return filepath.Join(base, "cluster"), DelegateControllers(base)
}

// ownCgroup returns the folder of this process's cgroup of version 2.
func ownCgroup() (string, error) {
	raw, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", fmt.Errorf("find this process's cgroup: %w", err)
	}
	for line := range strings.Lines(string(raw)) {
		if path, found := strings.CutPrefix(strings.TrimSpace(line), "0::"); found {
			return filepath.Join(root, path), nil
		}
	}
	return "", errors.New("find this process's cgroup: it has no cgroup of version 2")
}

// DelegateControllers delegates to the children of a folder the controllers that the kubelet requires
// (k8s.io/kubernetes/pkg/kubelet/cm) and that the folder has.
func DelegateControllers(folder string) error {
	return enable(folder, missing(folder))
}

// missing returns the required controllers that a folder has and does not delegate.
func missing(folder string) []string {
	offered, enabled := words(folder, controllersFile), words(folder, subtreeFile)
	var out []string
	for _, controller := range []string{"cpu", "cpuset", "memory", "pids", "hugetlb", "io"} {
		if slices.Contains(offered, controller) && !slices.Contains(enabled, controller) {
			out = append(out, controller)
		}
	}
	return out
}

func words(folder, file string) []string {
	raw, err := os.ReadFile(filepath.Join(folder, file))
	if err != nil {
		return nil
	}
	return strings.Fields(string(raw))
}

func enable(folder string, controllers []string) error {
	if len(controllers) == 0 {
		return nil
	}
	err := os.WriteFile(filepath.Join(folder, subtreeFile), []byte("+"+strings.Join(controllers, " +")), 0)
	if err != nil {
		return fmt.Errorf("delegate the cgroup controllers %s of %s: %w", strings.Join(controllers, ", "), folder, err)
	}
	return nil
}

// delegateFromRoot makes the root delegate its controllers, and records the changes. The root of a container is an
// ordinary cgroup to the kernel and must not have processes then. So they are moved aside.
func delegateFromRoot(s cluster.Settings) error {
	d := delegation{Enabled: missing(root)}
	if err := writeDelegation(s, d); err != nil {
		return err
	}
	err := enable(root, d.Enabled)
	if !errors.Is(err, unix.EBUSY) {
		return err
	}
	d.Aside = true
	if err := writeDelegation(s, d); err != nil {
		return err
	}
	folder := filepath.Join(root, AsideName)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("create the cgroup %s: %w", folder, err)
	}
	for range 20 { // a process may have forked in between
		if err := moveAll(root, folder); err != nil {
			return err
		}
		if err = enable(root, d.Enabled); !errors.Is(err, unix.EBUSY) {
			return err
		}
	}
	return err
}

// revert reverts the changes of a cluster above its own cgroup and removes the record. If another cluster uses a
// controller meanwhile, the kernel refuses to disable it, and it stays enabled. Then the root's processes stay aside,
// too: a cgroup that delegates controllers must not have processes.
func revert(s cluster.Settings) error {
	raw, err := os.ReadFile(s.Path(RecordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var d delegation
	if err == nil {
		err = json.Unmarshal(raw, &d)
	}
	if err != nil {
		return fmt.Errorf("read the record of cgroup changes: %w", err)
	}
	inUse := false
	for _, controller := range d.Enabled {
		err := os.WriteFile(filepath.Join(root, subtreeFile), []byte("-"+controller), 0)
		switch {
		case errors.Is(err, unix.EBUSY):
			inUse = true
		case err != nil && !errors.Is(err, unix.EINVAL):
			return fmt.Errorf("disable the cgroup controller %s: %w", controller, err)
		}
	}
	if folder := filepath.Join(root, AsideName); d.Aside && !inUse {
		if err := errors.Join(moveAll(folder, root), removeTree(folder)); err != nil {
			return err
		}
	}
	if err := os.Remove(s.Path(RecordFile)); err != nil {
		return fmt.Errorf("remove the record of cgroup changes: %w", err)
	}
	return nil
}

// HasRecord reports whether a cluster left changes above its own cgroup.
func HasRecord(s cluster.Settings) bool {
	_, err := os.Stat(s.Path(RecordFile))
	return !errors.Is(err, fs.ErrNotExist)
}

func writeDelegation(s cluster.Settings, d delegation) error {
	raw, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("encode the record of cgroup changes: %w", err)
	}
	if err := os.WriteFile(s.Path(RecordFile), raw, 0o644); err != nil {
		return fmt.Errorf("write the record of cgroup changes: %w", err)
	}
	return nil
}

// moveAll moves the processes of one cgroup into another.
func moveAll(from, to string) error {
	for _, word := range words(from, procsFile) {
		pid, err := strconv.Atoi(word)
		if err != nil || pid == 0 {
			continue // 0 is a process outside of this PID namespace
		}
		if err := Move(pid, to); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

// Move moves a process to the cgroup of a folder.
func Move(pid int, folder string) error {
	if err := os.WriteFile(filepath.Join(folder, procsFile), []byte(strconv.Itoa(pid)), 0); err != nil {
		return fmt.Errorf("move process %d to the cgroup %s: %w", pid, folder, err)
	}
	return nil
}
