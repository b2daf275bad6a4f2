package compare_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/localcluster/cleanvm/compare"
)

const whole = "\n@@ end\n"

func parse(t *testing.T, text string) compare.Snapshot {
	t.Helper()
	snapshot, err := compare.Parse(text + whole)
	if err != nil {
		t.Fatal(err)
	}
	return snapshot
}

func TestParseRejectsIncompleteSnapshots(t *testing.T) {
	if got, err := compare.Parse("@@ files\n/opt\td 755 0:0\n"); err == nil {
		t.Errorf("an incomplete snapshot was parsed as %v", got)
	}
}

func TestDiff(t *testing.T) {
	for name, c := range map[string]struct {
		before, after string
		unexpected    []string
		allowed       map[string]int
		untilReboot   []string
	}{
		"nothing": {
			before: "@@ files\n/opt\td 755 0:0\n@@ links\nlo", after: "@@ files\n/opt\td 755 0:0\n@@ links\nlo",
		},
		"a folder and a link": {
			before:     "@@ files\n/opt\td 755 0:0\n@@ links\nlo",
			after:      "@@ files\n/opt\td 755 0:0\n/opt/containerd\td 755 0:0\n@@ links\nveth0\nlo",
			unexpected: []string{"files: new: /opt/containerd (d 755 0:0)", "links: new: veth0"},
		},
		"a file that is gone": {
			before: "@@ files\n/etc/motd\tf 644 0:0 286", after: "@@ files",
			unexpected: []string{"files: gone: /etc/motd (f 644 0:0 286)"},
		},
		"another owner": {
			before: "@@ files\n/srv/a\tf 644 0:0 1", after: "@@ files\n/srv/a\tf 644 1000:1000 1",
			unexpected: []string{`files: changed: /srv/a: "f 644 0:0 1" is now "f 644 1000:1000 1"`},
		},
		"controllers that stay widened": {
			before: "@@ controllers\n/sys/fs/cgroup/cgroup.subtree_control\tmemory pids",
			after:  "@@ controllers\n/sys/fs/cgroup/cgroup.subtree_control\tcpu memory pids",
			unexpected: []string{
				`controllers: changed: /sys/fs/cgroup/cgroup.subtree_control: "memory pids" is now "cpu memory pids"`,
			},
		},
		"a second process of the same program": {
			before: "@@ processes\n/bin/sleep 9", after: "@@ processes\n/bin/sleep 9\n/bin/sleep 9",
			unexpected: []string{"processes: new: /bin/sleep 9"},
		},
		"two mounts in one place, one of them gone": {
			before: "@@ mounts\n/mnt\ta ext4\n/mnt\tb ext4", after: "@@ mounts\n/mnt\tb ext4",
			unexpected: []string{"mounts: gone: /mnt (a ext4)"},
		},
		"a chain in a table that was there": {
			before: "@@ firewall\nip nat\ttable ip nat {", after: "@@ firewall\nip nat\ttable ip nat {\nip nat\tchain own {",
			unexpected: []string{"firewall: new: ip nat (chain own {)"},
		},
		"what a running Debian changes": {
			before: "@@ files\n@@ sysctls\nfs.file-nr\t1",
			after: "@@ files\n/var/log/journal/1/system.journal\tf 640 0:0 8\n/run/sudo/ts/dev\tf 600 0:0 9\n@@ sysctls\n" +
				"fs.file-nr\t2",
		},
		"the user's caches and the clone": {
			before: "@@ files",
			after: "@@ files\n/home/dev/.cache/a\td 755 1000:1000\n/home/dev/src\td 755 1000:1000\n" +
				"/home/dev/src/go.mod\tf 644 1000:1000 9",
			allowed: map[string]int{"the user's caches": 1, "the clone": 2},
		},
		"a folder whose name only begins like the clone's": {
			before: "@@ files", after: "@@ files\n/home/dev/src2\td 755 1000:1000",
			unexpected: []string{"files: new: /home/dev/src2 (d 755 1000:1000)"},
		},
		"a module with its settings": {
			before:      "@@ modules\next4\n@@ sysctls\nkernel.a\t1",
			after:       "@@ modules\next4\nbr_netfilter\n@@ sysctls\nkernel.a\t1\nnet.bridge.b\t1",
			untilReboot: []string{"modules: new: br_netfilter", "sysctls: new: net.bridge.b (1)"},
		},
		"a setting that a module does not excuse": {
			before:      "@@ modules\next4\n@@ sysctls\nkernel.panic\t0",
			after:       "@@ modules\next4\nveth\n@@ sysctls\nkernel.panic\t10",
			unexpected:  []string{`sysctls: changed: kernel.panic: "0" is now "10"`},
			untilReboot: []string{"modules: new: veth"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := compare.Diff(parse(t, c.before), parse(t, c.after), compare.IgnoredChanges(),
				compare.Allowed("/home/dev/src"))
			if diff := cmp.Diff(c.unexpected, text(got.Unexpected)); diff != "" {
				t.Errorf("unexpected (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.untilReboot, text(got.UntilReboot)); diff != "" {
				t.Errorf("until the next boot (-want +got):\n%s", diff)
			}
			if c.allowed == nil {
				c.allowed = map[string]int{}
			}
			if diff := cmp.Diff(c.allowed, got.Allowed); diff != "" {
				t.Errorf("allowed (-want +got):\n%s", diff)
			}
			if got.Clean() != (len(c.unexpected) == 0) {
				t.Errorf("Clean returned %v with %d findings", got.Clean(), len(c.unexpected))
			}
		})
	}
}

func text(findings []compare.Finding) []string {
	var out []string
	for _, f := range findings {
		out = append(out, f.String())
	}
	return out
}
