// Package preflight finds out, before minutes are spent on building, whether
// the embedded cluster can run on this machine, and says for each thing that is
// missing what to do about it.
package preflight

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	diskNeeded   = 15 << 30
	memoryNeeded = 4 << 30
	// inotifyNeeded is what the kubelet, the container runtime and a dozen
	// controllers open together, with some room.
	inotifyNeeded = 64
)

// Finding is one thing that stands in the way.
type Finding struct {
	// Problem says what is wrong.
	Problem string
	// Remedy says what to do.
	Remedy string
}

// String shows a finding in one line.
func (f Finding) String() string { return f.Problem + ": " + f.Remedy }

// Release returns the host's distribution and version, such as "debian-12".
func Release() (string, error) {
	raw, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", fmt.Errorf("read the distribution's name: %w", err)
	}
	fields := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		fields[key] = strings.Trim(value, `"`)
	}
	return fields["ID"] + "-" + fields["VERSION_ID"], nil
}

// Check looks at the machine. The cache's folder must exist; building says
// whether something has to be built.
func Check(cache string, building bool) []Finding {
	var out []Finding
	checks := []func() *Finding{checkUser, checkCgroups, checkFileSystems, checkInotify, checkMemory}
	if building {
		checks = append(checks, checkTools, func() *Finding { return checkDisk(cache) })
	}
	for _, check := range checks {
		if found := check(); found != nil {
			out = append(out, *found)
		}
	}
	return out
}

func finding(remedy, format string, args ...any) *Finding {
	return &Finding{Problem: fmt.Sprintf(format, args...), Remedy: remedy}
}

func checkUser() *Finding {
	if os.Geteuid() == 0 {
		return nil
	}
	if _, err := exec.LookPath("sudo"); err != nil {
		return finding("run it as root, or install sudo", "namespaces need root, and there is no sudo")
	}
	return nil
}

func checkCgroups() *Finding {
	if _, err := os.Stat("/sys/fs/cgroup"); err != nil {
		return finding("mount the cgroup file system, or use kind", "there are no cgroups")
	}
	raw, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers")
	if err != nil {
		return nil // version 1: every mounted controller is a folder
	}
	for _, controller := range []string{"cpu", "memory", "pids"} {
		if !strings.Contains(" "+strings.TrimSpace(string(raw))+" ", " "+controller+" ") {
			return finding("enable it on the kernel's command line, or use kind", "the cgroup controller %s is off", controller)
		}
	}
	return nil
}

func checkFileSystems() *Finding {
	raw, err := os.ReadFile("/proc/filesystems")
	if err != nil || strings.Contains(string(raw), "\toverlay\n") {
		return nil
	}
	if exec.Command("modprobe", "overlay").Run() == nil { //nolint:noctx // ends at once
		return nil
	}
	return finding("sudo modprobe overlay", "the kernel offers no overlay file system")
}

func checkInotify() *Finding {
	raw, err := os.ReadFile("/proc/sys/fs/inotify/max_user_instances")
	if err != nil {
		return finding("use a kernel with inotify", "inotify cannot be read (%v)", err)
	}
	limit, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil || limit < inotifyNeeded {
		return finding("sudo sysctl fs.inotify.max_user_instances=512", "only %s inotify instances are allowed, %d are needed", strings.TrimSpace(string(raw)), inotifyNeeded)
	}
	return nil
}

func checkMemory() *Finding {
	var machine unix.Sysinfo_t
	if err := unix.Sysinfo(&machine); err != nil {
		return finding("check the machine", "the memory's size cannot be read (%v)", err)
	}
	total := machine.Totalram * uint64(machine.Unit)
	if total < memoryNeeded {
		return finding("use a machine with 4 GB or more", "the machine has %d MB of memory", total>>20)
	}
	return nil
}

func checkDisk(cache string) *Finding {
	var disk unix.Statfs_t
	if err := unix.Statfs(cache, &disk); err != nil {
		return finding("check the folder", "the free space below %s cannot be read (%v)", cache, err)
	}
	free := disk.Bavail * uint64(max(disk.Bsize, 0))
	if free < diskNeeded {
		return finding("free some, or set LOCALCLUSTER_CACHE to a folder on a larger disk", "%d GB are free below %s, building needs %d", free>>30, cache, diskNeeded>>30)
	}
	return nil
}

func checkTools() *Finding {
	for tool, remedy := range map[string]string{
		"go":       "install Go 1.26 or newer from https://go.dev/dl (Debian's own is too old to fetch a newer one)",
		"python3":  "sudo apt-get install python3 python3-pip",
		"apt-get":  "the embedded cluster is for Debian 12+ and Ubuntu 22.04+; elsewhere use kind",
		"dpkg-deb": "the embedded cluster is for Debian 12+ and Ubuntu 22.04+; elsewhere use kind",
	} {
		if _, err := exec.LookPath(tool); err != nil {
			return finding(remedy, "%s is not in the path", tool)
		}
	}
	return nil
}
