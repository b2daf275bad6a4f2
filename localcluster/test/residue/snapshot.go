// Package residue tests that the embedded cluster leaves nothing behind. Its tests run on a separate machine (see
// machine_test.go) and compare its state before and after: processes, mounts, network devices, firewall rules, files,
// cgroups and kernel settings.
package residue

import (
	"bufio"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/kedify/argo-rollouts-plugin/localcluster/cgroup"
	"github.com/kedify/argo-rollouts-plugin/localcluster/cluster"
)

// Snapshot is the state of the machine: kind of object to a sorted list.
type Snapshot map[string][]string

// Disk is a root file system that stores its changes in a separate folder.
type Disk struct {
	// Before is a mount of the unchanged file system.
	Before string
	// Written is the folder of the changes.
	Written string
	// Own is a folder in it that snapshots skip.
	Own string
}

// Take takes a snapshot of the machine. It omits the ancestors of this process and the cgroups of other checkouts'
// clusters.
func Take(disk Disk, settings cluster.Settings) (Snapshot, error) {
	out := Snapshot{}
	for kind, look := range map[string]func() ([]string, error){
		"processes": processes,
		"mounts":    func() ([]string, error) { return lines("/proc/self/mountinfo", mountPoint) },
		"links":     links,
		"firewall":  firewall,
		"files":     disk.files,
		"cgroups":   func() ([]string, error) { return cgroups(settings) },
		rootCgroup:  func() ([]string, error) { return delegatedControllers(), nil },
		"sysctls":   sysctls,
	} {
		found, err := look()
		if err != nil {
			return nil, fmt.Errorf("take a snapshot: %s: %w", kind, err)
		}
		slices.Sort(found)
		out[kind] = slices.Compact(found)
	}
	if otherClusterRuns(settings) {
		delete(out, rootCgroup)
	}
	return out, nil
}

// rootCgroup is the kind of changes at the root of the cgroups, which all clusters share. A snapshot contains it only
// if no cluster of another checkout runs.
const rootCgroup = "root cgroup"

// restrictedTo returns a snapshot with only the kinds of another one.
func (s Snapshot) restrictedTo(other Snapshot) Snapshot {
	out := maps.Clone(s)
	maps.DeleteFunc(out, func(kind string, _ []string) bool { _, has := other[kind]; return !has })
	return out
}

// processes lists the command lines of all processes except this one and its ancestors. It omits zombies.
func processes() ([]string, error) {
	excluded := ancestors(os.Getpid())
	var out []string
	err := eachProcess(func(pid string) {
		raw, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
		if state, _ := stateOf(pid); err != nil || state == "Z" || slices.Contains(excluded, pid) {
			return
		}
		out = append(out, strings.ReplaceAll(string(raw), "\x00", " "))
	})
	return out, err
}

// stateOf returns a process's state and its parent, which follow the name in parentheses (proc_pid_stat(5)).
func stateOf(pid string) (state, parent string) {
	raw, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return "", ""
	}
	fields := strings.Fields(string(raw[strings.LastIndex(string(raw), ")")+1:]))
	return fields[0], fields[1]
}

// ancestors returns a process and its ancestors.
func ancestors(pid int) []string {
	var out []string
	for id := strconv.Itoa(pid); id != "" && id != "0"; _, id = stateOf(id) {
		out = append(out, id)
	}
	return out
}

func eachProcess(look func(pid string)) error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if strings.Trim(entry.Name(), "0123456789") == "" {
			look(entry.Name())
		}
	}
	return nil
}

// files lists the changed files. A deleted file appears as a device. Folders that existed before may have been written
// to; that alone is no residue.
func (d Disk) files() ([]string, error) {
	var out []string
	err := filepath.WalkDir(d.Written, func(path string, entry fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, d.Written)
		switch {
		case err != nil:
			return err
		case name == d.Own:
			return fs.SkipDir
		case entry.IsDir():
			if before, err := os.Lstat(d.Before + name); err == nil && before.IsDir() {
				return nil
			}
		}
		out = append(out, name+" "+entry.Type().String())
		return nil
	})
	return out, err
}

// cgroupRoot is the mount point of the cgroup hierarchies.
const cgroupRoot = "/sys/fs/cgroup"

// delegatedControllers lists the controllers that the root delegates, and the cgroup to which its processes are moved
// meanwhile.
func delegatedControllers() []string {
	var out []string
	if raw, err := os.ReadFile(filepath.Join(cgroupRoot, "cgroup.subtree_control")); err == nil {
		out = append(out, "handed down: "+strings.TrimSpace(string(raw)))
	}
	aside := filepath.Join(cgroupRoot, cgroup.AsideName)
	if _, err := os.Stat(aside); err == nil {
		out = append(out, aside)
	}
	return out
}

// otherClusterRuns reports whether a cluster of another checkout has processes in its cgroup of version 2.
func otherClusterRuns(settings cluster.Settings) bool {
	excluded := []string{filepath.Join(cgroupRoot, settings.Cgroup()), filepath.Join(cgroupRoot, cgroup.AsideName)}
	// The pattern is well-formed
	found, _ := filepath.Glob(filepath.Join(cgroupRoot, cluster.Settings{Name: "*"}.Cgroup()))
	return slices.ContainsFunc(found, func(folder string) bool {
		raw, err := os.ReadFile(filepath.Join(folder, "cgroup.events"))
		return err == nil && !slices.Contains(excluded, folder) && strings.Contains(string(raw), "populated 1")
	})
}

// cgroups lists a cluster's cgroups, and all others that contain a process of this machine and not this process.
func cgroups(settings cluster.Settings) ([]string, error) {
	var out []string
	err := filepath.WalkDir(cgroupRoot, func(path string, entry fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // another program's, removed meanwhile
		}
		if err == nil && entry.IsDir() && strings.Contains(path, settings.Cgroup()) {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	self := cgroupsOf("self")
	return out, eachProcess(func(pid string) {
		if state, _ := stateOf(pid); state == "Z" {
			return
		}
		for _, line := range foreignCgroups(cgroupsOf(pid), self, settings.Cgroup()) {
			out = append(out, "a process is in "+line)
		}
	})
}

// foreignCgroups returns the cgroups of a process that are neither this process's nor the cluster's. It omits the root
// of a hierarchy, because a process that ends is there before it is a zombie (cgroup_exit in Linux).
func foreignCgroups(all, self []string, cluster string) []string {
	return slices.DeleteFunc(all, func(line string) bool {
		return slices.Contains(self, line) || strings.Contains(line, cluster) || strings.HasSuffix(line, ":/")
	})
}

// cgroupsOf returns the cgroups of a process: hierarchy, controllers and path.
func cgroupsOf(pid string) []string {
	found, _ := lines(filepath.Join("/proc", pid, "cgroup"), func(line string) string { return line }) // it may have ended
	return found
}

// mountPoint extracts the mount point from a line of mountinfo (proc(5)).
func mountPoint(line string) string { return strings.Fields(line)[4] }

func lines(path string, pick func(string) string) ([]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var out []string
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		out = append(out, pick(scanner.Text()))
	}
	return out, scanner.Err()
}

// links lists the network devices of this namespace.
func links() ([]string, error) {
	found, err := netlink.LinkList()
	var out []string
	for _, link := range found {
		out = append(out, link.Attrs().Name)
	}
	return out, err
}

// firewall lists the nftables tables in this network namespace.
func firewall() ([]string, error) {
	var out []string
	for _, path := range []string{"/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"} {
		found, err := lines(path, func(line string) string { return path + ": " + line })
		if err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		out = append(out, found...)
	}
	tables, err := nftTables()
	return append(out, tables...), err
}

// sysctls reads the kernel settings that the node's components may change, and all settings of this namespace's
// network.
func sysctls() ([]string, error) {
	var out []string
	for _, name := range []string{
		"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
		"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes", "net/netfilter/nf_conntrack_max",
		"net/ipv4/ip_forward", "net/ipv4/conf/all/route_localnet", "net/ipv4/conf/all/rp_filter",
		"net/bridge/bridge-nf-call-iptables", "fs/inotify/max_user_instances",
	} {
		raw, err := os.ReadFile(filepath.Join("/proc/sys", name))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, name+" = "+strings.TrimSpace(string(raw)))
	}
	return out, nil
}
