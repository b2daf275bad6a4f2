package compare

import "regexp"

// Rule matches items that may differ.
type Rule struct {
	// Section is the section of the items.
	Section string
	// Names matches the whole name.
	Names *regexp.Regexp
	// Reason is the reason for the exception.
	Reason string
}

func (r Rule) matches(section, name string) bool {
	return r.Section == section && r.Names.MatchString(name)
}

// rule returns the Rule of a pattern.
func rule(section, pattern, reason string) Rule {
	return Rule{section, regexp.MustCompile(`^(?:` + pattern + `)$`), reason}
}

// IgnoredChanges are changes that a running Debian makes by itself.
func IgnoredChanges() []Rule {
	return []Rule{
		rule(sectionFiles, `/var/log/(journal/.*|wtmp\.db|lastlog|lastlog2|wtmp|btmp|auth\.log)`, "journal and logins"),
		rule(sectionFiles, `/var/lib/(wtmpdb|lastlog)/.*`, "logins"),
		rule(sectionFiles, `/var/lib/systemd/(timers|timesync|catalog|random-seed|linger)(/.*)?`, "systemd's own state"),
		rule(sectionFiles, `/var/lib/sudo/lectured(/.*)?|/run/sudo(/.*)?`, "sudo's lecture and tickets"),
		rule(sectionFiles, `/run/(log|udev)/.*|/run/systemd/(journal|sessions|seats|users|units|inhibit|netif|transient|propagate|io\.systemd.*)(/.*)?`, "state of the running system"),
		rule(sectionFiles, `/run/user/\d+/systemd/.*`, "state of a login"),
		rule(sectionFiles, `/dev/(pts|char|block|disk|bus)/.*|/dev/(tty|vcs).*`, "device nodes of terminals"),
		rule(sectionFiles, `/home/dev/\.(bash_history|sudo_as_admin_successful|lesshst|wget-hsts)`, "the user's shell"),
		rule(sectionFiles, `/tmp/systemd-private-.*|/var/tmp/systemd-private-.*`, "private folders of services"),
		rule(Sysctls, `kernel\.(random\..*|ns_last_pid|pty\.nr)|fs\.(dentry-state|file-nr|inode-nr|inode-state|quota\..*)|net\.netfilter\.nf_conntrack_count|vm\.stat.*`, "counters"),
		rule("processes", `sshd(-session)?: .*`, "titles that ssh changes"),
		rule("processes", `bash -c : cleanvm measures memory;.*`, "the memory measurement"),
		rule("processes", `\(udev-worker\)`, "workers that come and go"),
		rule("cgroups", `/sys/fs/cgroup/system\.slice/systemd-[a-z]+d\.service`, "services that start on demand"),
		rule("units", `run-[a-z0-9-]+\.scope|session-\d+\.scope`, "logins"),
	}
}

// Allowed are items that README documents as left by its commands.
func Allowed(clone string) []Rule {
	return []Rule{
		rule(sectionFiles, `/home/dev/\.cache(/.*)?`, "the user's caches"),
		rule(sectionFiles, `/home/dev/go(/.*)?`, "Go's modules"),
		rule(sectionFiles, `/home/dev/\.config(/go(/.*)?)?`, "Go's own counters"),
		rule(sectionFiles, regexp.QuoteMeta(clone)+`(/.*)?`, "the clone"),
	}
}
