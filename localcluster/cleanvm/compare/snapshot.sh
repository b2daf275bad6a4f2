#!/bin/bash
# Prints a snapshot of this machine, as root, in sections. Each line of a section is one item: its name, a tab, and its
# other properties.
set -u
export LC_ALL=C

section() { printf '@@ %s\n' "$1"; }

section files
# Go's caches contain too many files to list, and are allowed anyway.
find / /home /dev /dev/shm /run /run/lock /run/user/* /tmp -xdev \
	\( -path /home/dev/go/pkg/mod -o -path /home/dev/.cache/go-build -o -path /run/cleanvm \) -prune -o \
	-type d -printf '%p\t%y %m %U:%G\n' -o -type l -printf '%p\t%y %U:%G %l\n' -o -printf '%p\t%y %m %U:%G %s\n'

section contents
find /etc -xdev -type f -size -256k -exec sha256sum {} + | sed -E 's/^([0-9a-f]+)  (.*)/\2\t\1/'

section mounts
findmnt -rno TARGET,SOURCE,FSTYPE,PROPAGATION | sed 's/ /\t/'

section links
for link in /sys/class/net/*; do printf '%s\n' "${link##*/}"; done

section addresses
ip -br address | awk '{ name = $1; $1 = $2 = ""; print name "\t" $0 }'

section routes
{ ip route show table all; ip -6 route show table all; } | sed -E 's/ expires [0-9]+sec//'

section rules
{ ip rule; ip -6 rule; }

section firewall
nft -s list ruleset 2>/dev/null | awk '/^table/ { table = $2 " " $3 } !/^[[:space:]]*}$/ { print table "\t" $0 }'

section cgroups
find /sys/fs/cgroup -type d

section controllers
find /sys/fs/cgroup -name cgroup.subtree_control -exec grep -H '' {} + | sed 's/:/\t/'

section sysctls
sysctl -a 2>/dev/null | sed -E 's/ = /\t/'

section processes
# All processes except kernel threads, this script and its children.
own=$(ps -o sid= -p $$)
ps -eww -o sid=,ppid=,pid=,args= | awk -v own="$own" '$1 != own && $2 != 2 && $3 != 2 { $1 = $2 = $3 = ""; sub(/^ +/, ""); print }'

section listeners
ss -Hltunx | awk '{ print $1 " " $5 " " ($1 ~ /^u_/ ? "" : $4) }'

section units
systemctl list-units --all --plain --no-legend --no-pager | awk '{ print $1 "\t" $2, $3, $4 }'

section docker
printf 'service\t%s\n' "$(systemctl is-active docker)"
printf 'process\t%s\n' "$(systemctl show --property MainPID --value docker)"
printf 'daemon\t%s\n' "$(docker info --format 'version {{.ServerVersion}}, {{.Containers}} containers, {{.Images}} images' 2>&1)"

section modules
awk '{ print $1 }' /proc/modules

section memory
awk '$1 == "oom_kill" { print "killed for want of memory\t" $2 }' /proc/vmstat

section end
