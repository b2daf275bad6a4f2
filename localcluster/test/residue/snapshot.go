// Package residue tests that the embedded cluster leaves nothing behind. It
// looks at the machine as a stranger would: processes, mounts, network devices,
// namespaces, firewall rules, cgroups and kernel settings, before and after.
package residue

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Snapshot is what was found on the machine: kind of thing to its sorted list.
type Snapshot map[string][]string

// Take looks at the machine. The processes of this test itself and those that
// it was started by are left out.
func Take(self int) (Snapshot, error) {
	out := Snapshot{}
	for kind, look := range map[string]func() ([]string, error){
		"processes":  func() ([]string, error) { return processes(self) },
		"mounts":     func() ([]string, error) { return lines("/proc/self/mountinfo", mountPoint) },
		"links":      func() ([]string, error) { return names("/sys/class/net") },
		"namespaces": namespaces,
		"firewall":   firewall,
		"cgroups":    cgroups,
		"sysctls":    sysctls,
		"net files":  func() ([]string, error) { return optional(names("/run/netns")) },
		"cni files":  func() ([]string, error) { return optional(names("/var/lib/cni")) },
		"pod logs":   func() ([]string, error) { return optional(names("/var/log/pods")) },
		"containers": func() ([]string, error) { return optional(names("/run/containerd")) },
	} {
		found, err := look()
		if err != nil {
			return nil, fmt.Errorf("look at %s: %w", kind, err)
		}
		slices.Sort(found)
		out[kind] = slices.Compact(found)
	}
	return out, nil
}

// processes lists the command lines of the cluster's processes: its supervisor,
// and all that live in a PID namespace other than this process's. What else
// comes and goes on the machine is nobody's business here.
func processes(self int) ([]string, error) {
	own := ancestors(self)
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return nil, err
	}
	return eachProcess(func(pid string) (string, bool) {
		raw, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
		if err != nil || slices.Contains(own, pid) {
			return "", false
		}
		program, _, _ := strings.Cut(string(raw), "\x00")
		other, err := os.Readlink(filepath.Join("/proc", pid, "ns", "pid"))
		return strings.ReplaceAll(string(raw), "\x00", " "),
			err == nil && other != namespace || filepath.Base(program) == "localcluster"
	})
}

// ancestors returns a process and those that started it.
func ancestors(pid int) []string {
	var out []string
	for id := strconv.Itoa(pid); id != "" && id != "0"; {
		out = append(out, id)
		raw, err := os.ReadFile(filepath.Join("/proc", id, "stat"))
		if err != nil {
			break
		}
		// The parent follows the state, after the name in parentheses (proc(5)).
		fields := strings.Fields(string(raw[strings.LastIndex(string(raw), ")")+1:]))
		id = fields[1]
	}
	return out
}

func eachProcess(look func(pid string) (string, bool)) ([]string, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, entry := range entries {
		if strings.Trim(entry.Name(), "0123456789") != "" {
			continue
		}
		if found, ok := look(entry.Name()); ok {
			out = append(out, found)
		}
	}
	return out, nil
}

// namespaces lists the namespaces that any process lives in, by kind.
func namespaces() ([]string, error) {
	var out []string
	_, err := eachProcess(func(pid string) (string, bool) {
		for _, kind := range []string{"net", "mnt", "pid", "uts", "ipc"} {
			if target, err := os.Readlink(filepath.Join("/proc", pid, "ns", kind)); err == nil {
				out = append(out, target)
			}
		}
		return "", false
	})
	return out, err
}

// mountPoint takes the mount point out of a line of mountinfo (proc(5)).
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

func names(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, entry := range entries {
		out = append(out, entry.Name())
	}
	return out, nil
}

// optional takes a folder that isn't there for an empty one.
func optional(found []string, err error) ([]string, error) {
	if os.IsNotExist(err) {
		return nil, nil
	}
	return found, err
}

// firewall lists the tables that the kernel knows in this network namespace.
func firewall() ([]string, error) {
	var out []string
	for _, path := range []string{"/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"} {
		found, err := optional(lines(path, func(line string) string { return path + ": " + line }))
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	tables, err := nftTables()
	return append(out, tables...), err
}

func cgroups() ([]string, error) {
	var out []string
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			out = append(out, path)
		}
		return err
	})
	return out, err
}

// sysctls reads the kernel settings that the node's components are known to
// change, and all that concerns the network of this namespace.
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
