#!/bin/sh
# Checks whether the embedded cluster can run on this machine, before anything is built. Prints one line for each
# failed check, with a fix, and exits with 1 if there is one. With "parts" it also prints how long the build takes.
#
#   preflight.sh CACHE [programs|parts]
#
# CACHE is the folder for built programs and running clusters. With "programs" it also checks the requirements for
# building this project's programs, with "parts" the requirements for building all components of the cluster. For tests,
# PREFLIGHT_ROOT is a folder with another machine's files.
set -u

cache=${1:?usage: preflight.sh CACHE [programs|parts]}
building=${2-}
root=${PREFLIGHT_ROOT-}
found=0

# Measured requirements of a running cluster and of a build with an empty cache, with a margin; docs/dev/localcluster.md
# has the measurements.
memory_mb=3500
disk_running_gb=3
disk_building_gb=10
# The build time of all components of a cluster on two cores, and of KEDA after that, in minutes. A test compares both
# with the estimates of localcluster/build.
cluster_minutes=10
keda_minutes=4
# The inotify instances of the kubelet, the container runtime and a dozen controllers together.
inotify=64

container='run it in a container: see "In a container" in docs/dev/localcluster.md'

fail() { # PROBLEM FIX
	[ "$found" = 1 ] || echo 'this machine cannot run the cluster yet:' >&2
	found=1
	printf '  - %s: %s\n' "$1" "$2" >&2
}

is_root() { [ "${PREFLIGHT_UID-$(id -u)}" = 0 ]; }

user() {
	if is_root; then
		# CAP_SYS_ADMIN is bit 21 (capabilities(7)).
		capabilities=$(sed -n 's/^CapEff:[[:space:]]*//p' "$root/proc/self/status" | tail -c 9)
		[ $(((0x${capabilities:-ffffffff} >> 21) & 1)) = 1 ] ||
			fail 'root cannot create namespaces and mounts here' 'start the container with --privileged'
		return
	fi
	command -v sudo >/dev/null ||
		fail 'namespaces need root, and there is no sudo' 'run it as root, or install sudo'
}

distribution() {
	for tool in apt-get dpkg-deb; do
		command -v "$tool" >/dev/null && continue
		fail "there is no $tool: this is not Debian 12+ or Ubuntu 22.04+" "$container"
		return
	done
}

cgroups() {
	tree=$root/sys/fs/cgroup
	if [ ! -d "$tree" ]; then
		fail 'there are no cgroups' 'mount the cgroup file system at /sys/fs/cgroup'
		return
	fi
	if is_root && [ ! -w "$tree" ]; then
		fail 'the cgroups are read-only' 'start the container with --privileged'
		return
	fi
	for controller in cpu cpuset memory pids; do
		if [ -e "$tree/cgroup.controllers" ]; then
			grep -qw "$controller" "$tree/cgroup.controllers" && continue
		else
			[ -d "$tree/$controller" ] && continue
		fi
		fail "the cgroup controller $controller is disabled" 'enable it on the command line of the kernel (cgroup_enable=), and reboot'
	done
}

# The kernel loads a module when a feature of it is first used. So a module only has to exist.
kernel() {
	modules=$root/lib/modules/$(cat "$root/proc/sys/kernel/osrelease")
	[ -e "$modules/modules.dep" ] || return 0 # a container has none: the start reports what is missing
	for module in overlay veth nf_tables; do
		grep -q "/$module\.ko" "$modules/modules.dep" "$modules/modules.builtin" 2>/dev/null && continue
		grep -q "^$module " "$root/proc/modules" 2>/dev/null && continue
		fail "the kernel has no module $module" 'boot a kernel of your distribution that has it'
	done
}

mounting() {
	command -v mount >/dev/null ||
		fail 'there is no mount command, and the kubelet needs it' 'apt-get install mount'
}

limits() {
	instances=$(cat "$root/proc/sys/fs/inotify/max_user_instances" 2>/dev/null || echo 0)
	[ "$instances" -ge $inotify ] ||
		fail "only $instances inotify instances are allowed, $inotify are needed" 'sudo sysctl fs.inotify.max_user_instances=512'
	memory=$(($(sed -n 's/^MemTotal:[^0-9]*\([0-9]*\).*/\1/p' "$root/proc/meminfo") / 1024))
	[ "$memory" -ge $memory_mb ] ||
		fail "the machine has $memory MB of memory, $memory_mb are needed" 'use a machine with 4 GB or more'
}

disk() {
	mkdir -p "$cache" || {
		fail "cannot create the folder $cache" 'set LOCALCLUSTER_CACHE to a writable folder'
		return
	}
	[ "$(stat -f -c %T "$cache")" != overlayfs ] ||
		fail "$cache is on a container's own file system, which cannot hold another container's" 'mount a volume there (docker run -v), or set LOCALCLUSTER_CACHE to a folder on one'
	needed=$disk_running_gb
	[ "$building" != parts ] || needed=$disk_building_gb
	free=$(($(df -Pk "$cache" | awk 'NR == 2 {print $4}') / 1024 / 1024))
	[ "$free" -ge $needed ] ||
		fail "$free GB are free below $cache, $needed are needed" 'free some space, or set LOCALCLUSTER_CACHE to a folder on a larger disk'
}

go_tool() {
	command -v go >/dev/null ||
		fail 'go is not in the path' "install Go 1.26 or newer from https://go.dev/dl (Debian 12's own is too old to fetch a newer one)"
}

tools() {
	command -v git >/dev/null ||
		fail 'git is not in the path' 'sudo apt-get install git'
	python3 -m pip --version >/dev/null 2>&1 ||
		fail 'python3 has no pip' 'sudo apt-get install python3 python3-pip'
}

user
cgroups
kernel
mounting
limits
disk
[ -z "$building" ] || go_tool
if [ "$building" = parts ]; then
	distribution
	tools
	[ "$found" = 1 ] ||
		echo "the components of the cluster are built once: about $cluster_minutes minutes on two cores; KEDA takes about $keda_minutes more"
fi
exit $found
