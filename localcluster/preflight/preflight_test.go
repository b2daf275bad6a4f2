package preflight

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/localcluster/build"
)

// machine contains the files that the checks read and the programs in the path.
type machine struct {
	uid      string
	files    map[string]string
	programs []string
	building Building
}

// debian is a default Debian 13 with README's requirements.
func debian() machine {
	return machine{
		uid: "1000",
		files: map[string]string{
			"proc/self/status":                       "CapEff:\t000001ffffffffff\n",
			"proc/sys/kernel/osrelease":              "6.12\n",
			"proc/sys/fs/inotify/max_user_instances": "128\n",
			"proc/meminfo":                           "MemTotal:        4013928 kB\nMemFree: 1 kB\n",
			"proc/modules":                           "",
			"sys/fs/cgroup/cgroup.controllers":       "cpuset cpu io memory hugetlb pids rdma misc\n",
			"lib/modules/6.12/modules.builtin":       "kernel/fs/ext4/ext4.ko\n",
			"lib/modules/6.12/modules.dep": "kernel/fs/overlayfs/overlay.ko.xz:\nkernel/drivers/net/veth.ko.xz:\n" +
				"kernel/net/netfilter/nf_tables.ko.xz: kernel/x.ko\n",
		},
		programs: []string{"sudo", "mount", "apt-get", "dpkg-deb", "go", "git", "python3"},
		building: Components,
	}
}

// with changes one file; an empty text removes it.
func (m machine) with(path, text string) machine {
	if text == "" {
		delete(m.files, path)
	} else {
		m.files[path] = text
	}
	return m
}

func (m machine) without(program string) machine {
	var rest []string
	for _, p := range m.programs {
		if p != program {
			rest = append(rest, p)
		}
	}
	m.programs = rest
	return m
}

func (m machine) as(uid string) machine { m.uid = uid; return m }

// check runs the script on the machine and returns its output.
func (m machine) check(t *testing.T) (string, error) {
	t.Helper()
	root, bin := t.TempDir(), t.TempDir()
	for path, text := range m.files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tool := range []string{"sed", "tail", "cat", "grep", "awk", "stat", "df", "mkdir", "id"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, tool)); err != nil {
			t.Fatal(err)
		}
	}
	for _, program := range m.programs {
		if err := os.WriteFile(filepath.Join(bin, program), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.CommandContext(t.Context(), "/bin/sh", "-s", t.TempDir(), string(m.building))
	command.Env = []string{"PATH=" + bin, "PREFLIGHT_ROOT=" + root, "PREFLIGHT_UID=" + m.uid}
	command.Stdin = bytes.NewReader(script)
	printed, err := command.CombinedOutput()
	return string(printed), err
}

// estimated is the output before everything is built: the estimates of package build.
func estimated() string {
	minutes := func(components []build.Component) float64 { return math.Round(build.Planned(components).Minutes()) }
	keda := slices.DeleteFunc(build.OnDemand("..", "debian-13"),
		func(p build.Component) bool { return p.Name != build.KEDAComponent })
	return fmt.Sprintf("the components of the cluster are built once: about %.0f minutes on two cores; KEDA takes about "+
		"%.0f more\n",
		minutes(build.Components("..", "debian-13", build.KubernetesVersion)), minutes(keda))
}

func TestCheckPasses(t *testing.T) {
	for name, m := range map[string]machine{
		"Debian 13 with sudo":   debian(),
		"as root, without sudo": debian().without("sudo").as("0"),
		"cgroup v1": debian().with("sys/fs/cgroup/cgroup.controllers", "").with("sys/fs/cgroup/cpu/x", "x").
			with("sys/fs/cgroup/cpuset/x", "x").with("sys/fs/cgroup/memory/x", "x").with("sys/fs/cgroup/pids/x", "x"),
		"modules that are in the kernel": debian().with("lib/modules/6.12/modules.dep", "kernel/x.ko:\n").
			with("lib/modules/6.12/modules.builtin",
				"kernel/fs/overlayfs/overlay.ko\nkernel/drivers/net/veth.ko\nkernel/net/netfilter/nf_tables.ko\n"),
		"a container sees no modules": debian().with("lib/modules/6.12/modules.dep", ""),
	} {
		t.Run(name, func(t *testing.T) {
			if printed, err := m.check(t); err != nil || printed != estimated() {
				t.Errorf("%v: %swant %s", err, printed, estimated())
			}
		})
	}
}

func TestCheckPrintsProblemAndFix(t *testing.T) {
	tests := []struct {
		name                 string
		machine              machine
		problem, wantMessage string
	}{
		{"no sudo", debian().without("sudo"), "there is no sudo", "install sudo"},
		{
			"root in a plain container", debian().as("0").with("proc/self/status", "CapEff:\t00000000a80425fb\n"),
			"root cannot create namespaces", "--privileged",
		},
		{"a root file system without mount", debian().without("mount"), "no mount command", "apt-get install mount"},
		{"Fedora", debian().without("apt-get"), "there is no apt-get", "run it in a container"},
		{"no Go", debian().without("go"), "go is not in the path", "go.dev/dl"},
		{"no pip", debian().without("python3"), "python3 has no pip", "apt-get install python3 python3-pip"},
		{"no cgroups", debian().with("sys/fs/cgroup/cgroup.controllers", ""), "no cgroups", "mount"},
		{
			"a controller is off", debian().with("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io pids\n"),
			"controller memory is disabled", "cgroup_enable=",
		},
		{
			"no overlay", debian().with("lib/modules/6.12/modules.dep", "kernel/veth.ko.xz:\nkernel/nf_tables.ko.xz:\n"),
			"no module overlay", "boot a kernel",
		},
		{
			"few inotify instances", debian().with("proc/sys/fs/inotify/max_user_instances", "32\n"),
			"only 32 inotify instances", "sudo sysctl",
		},
		{"2 GB", debian().with("proc/meminfo", "MemTotal: 2013928 kB\n"), "has 1966 MB of memory", "4 GB"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			printed, err := tt.machine.check(t)
			if err == nil {
				t.Fatal("it passes")
			}
			if !strings.Contains(printed, tt.problem) || !strings.Contains(printed, tt.wantMessage) ||
				strings.Count(printed, "\n") != 2 {
				t.Errorf("want a heading and one line with %q and %q:\n%s", tt.problem, tt.wantMessage, printed)
			}
		})
	}
}

// The script requires build tools only where something has to be built: root by sudo has no Go in its path.
func TestWhatIsBuiltNeedsFewerTools(t *testing.T) {
	m := debian().without("git").without("apt-get").without("python3")
	m.building = Programs
	if printed, err := m.check(t); err != nil {
		t.Errorf("with built components: %v: %s", err, printed)
	}
	m = m.without("go")
	if printed, err := m.check(t); err == nil || !strings.Contains(printed, "go is not in the path") {
		t.Errorf("building programs without Go passes: %v: %s", err, printed)
	}
	m.building = Nothing
	if printed, err := m.check(t); err != nil {
		t.Errorf("all is built: %v: %s", err, printed)
	}
}
