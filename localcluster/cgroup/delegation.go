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

// RecordFile is the name, in the run directory, of the record of what is changed
// above the cluster's own cgroup. It is there until all of that is taken back.
const RecordFile = "cgroup.json"

// AsideName is where the processes of a container's root cgroup are kept while a
// cluster runs: a cgroup that hands controllers down may have none of its own.
const AsideName = "kedify-localcluster-aside"

// delegation is what a cluster changed above its own cgroup. The record is
// written before the change, so that whoever cleans up can take all of it back.
type delegation struct {
	// Enabled are the controllers that the root handed down to nobody before.
	Enabled []string `json:"enabled"`
	// Aside says that the root's processes were moved out of the way.
	Aside bool `json:"aside"`
}

// ScopeUnit names the unit of systemd that a cluster runs in.
func ScopeUnit(name string) string { return "kedify-localcluster-" + name + ".scope" }

// delegate makes the cluster's cgroup of version 2:
//
//	BASE/supervisor   this process
//	BASE/cluster      the root of the cluster's cgroup namespace
//
// BASE is the scope that this process was started in by systemd, which has
// handed the controllers down to it; without systemd it is a cgroup below the
// root. A cgroup either has processes or hands controllers down, so those are
// enabled level by level before any process sits in between.
func delegate(s cluster.Settings) (string, error) {
	base, err := ownCgroup()
	if err != nil {
		return "", err
	}
	if filepath.Base(base) != ScopeUnit(s.Name) {
		base = filepath.Join(root, s.Cgroup())
		if err := handDownFromRoot(s); err != nil {
			return "", err
		}
	}
	for _, folder := range []string{"supervisor", "cluster"} {
		if err := os.MkdirAll(filepath.Join(base, folder), 0o755); err != nil {
			return "", fmt.Errorf("make the cgroup %s: %w", base, err)
		}
	}
	if err := Move(os.Getpid(), filepath.Join(base, "supervisor")); err != nil {
		return "", err
	}
	return filepath.Join(base, "cluster"), HandDown(base)
}

// ownCgroup is the folder of this process's cgroup of version 2.
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
	return "", errors.New("find this process's cgroup: it has none of version 2")
}

// HandDown enables, for the cgroups below a folder, those controllers that the
// kubelet asks for (k8s.io/kubernetes/pkg/kubelet/cm) and that the folder has.
func HandDown(folder string) error {
	return enable(folder, missing(folder))
}

// missing lists the wanted controllers that a folder has and doesn't hand down.
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
		return fmt.Errorf("hand the cgroup controllers %s down from %s: %w", strings.Join(controllers, ", "), folder, err)
	}
	return nil
}

// handDownFromRoot lets the root hand its controllers down, and records what was
// changed. The root of a container is no root to the kernel: it must not have
// processes then, so they are moved aside.
func handDownFromRoot(s cluster.Settings) error {
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
		return fmt.Errorf("make the cgroup %s: %w", folder, err)
	}
	for range 20 { // a process may have forked meanwhile
		if err := moveAll(root, folder); err != nil {
			return err
		}
		if err = enable(root, d.Enabled); !errors.Is(err, unix.EBUSY) {
			return err
		}
	}
	return err
}

// takeBack undoes what a cluster changed above its own cgroup, and removes the
// record. Another cluster may use a controller by now: the kernel refuses to take
// that one back, and it stays. Then the root's processes stay aside, too: a cgroup
// that hands controllers down may have none.
func takeBack(s cluster.Settings) error {
	raw, err := os.ReadFile(s.Path(RecordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var d delegation
	if err == nil {
		err = json.Unmarshal(raw, &d)
	}
	if err != nil {
		return fmt.Errorf("read what the cluster changed in the cgroups: %w", err)
	}
	inUse := false
	for _, controller := range d.Enabled {
		err := os.WriteFile(filepath.Join(root, subtreeFile), []byte("-"+controller), 0)
		switch {
		case errors.Is(err, unix.EBUSY):
			inUse = true
		case err != nil && !errors.Is(err, unix.EINVAL):
			return fmt.Errorf("take the cgroup controller %s back: %w", controller, err)
		}
	}
	if folder := filepath.Join(root, AsideName); d.Aside && !inUse {
		if err := errors.Join(moveAll(folder, root), removeTree(folder)); err != nil {
			return err
		}
	}
	if err := os.Remove(s.Path(RecordFile)); err != nil {
		return fmt.Errorf("remove the record of what was changed in the cgroups: %w", err)
	}
	return nil
}

// Recorded says whether a cluster has left something to be taken back above its
// own cgroup.
func Recorded(s cluster.Settings) bool {
	_, err := os.Stat(s.Path(RecordFile))
	return !errors.Is(err, fs.ErrNotExist)
}

func writeDelegation(s cluster.Settings, d delegation) error {
	raw, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("encode what is changed in the cgroups: %w", err)
	}
	if err := os.WriteFile(s.Path(RecordFile), raw, 0o644); err != nil {
		return fmt.Errorf("record what is changed in the cgroups: %w", err)
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
