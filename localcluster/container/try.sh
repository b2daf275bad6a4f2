#!/bin/bash
# Runs commands, without Docker, in the privileged container that the Dockerfile in this folder describes. mmdebstrap
# builds the image from Debian's packages, and the cluster's runc runs it. The container has the privileges of
# `docker run --privileged`: all capabilities, no seccomp, the devices, and writable cgroups.
#
#   try.sh RUNC-PART CACHE COMMAND...
#
# RUNC-PART is the folder of the component "debian". CACHE is the folder of built components. The host's components and
# Go's caches are copied in.
set -euo pipefail
cd "$(dirname "$0")/../.."
runc_part=$1 cache=$2
shift 2
[ "$(id -u)" = 0 ] || { echo 'root is needed: runc makes a privileged container' >&2; exit 1; }
command -v mmdebstrap >/dev/null || { echo 'mmdebstrap is missing: apt-get install mmdebstrap' >&2; exit 1; }

release=trixie
packages=$(sed -n 's/.*--no-install-recommends \(.*\) \\$/\1/p' localcluster/container/Dockerfile)
key=$(printf "%s" "minbase $release $packages" | sha256sum | cut -c1-12)
base=$cache/container/$key
mkdir -p "$cache/container"
if [ ! -d "$base" ]; then
	rm -rf "$base.making"
	mmdebstrap --variant=minbase --include="ca-certificates,${packages// /,}" "$release" "$base.making"
	mv "$base.making" "$base"
fi

work=$(mktemp -d "$cache/container/run-XXXXXX")
id=canary-machine-$$
end() {
	"${runc[@]}" delete --force "$id" 2>/dev/null || true
	umount "$work/rootfs" 2>/dev/null || true
	rm -rf "$work"
}
runc=(env "LD_LIBRARY_PATH=$(echo "$runc_part"/usr/lib/*-linux-gnu)" "$runc_part/usr/sbin/runc" --root "$work/state")
trap end EXIT

# The root is an overlay, as Docker's is; the volume is a folder of the disk.
mkdir -p "$work"/{rootfs,upper,work,root/.cache/kedify-localcluster,root/go/pkg}
mount -t overlay overlay -o "lowerdir=$base,upperdir=$work/upper,workdir=$work/work" "$work/rootfs"
mkdir -p "$work/rootfs"/{src,usr/local/go}
printf '[safe]\n\tdirectory = /src\n' > "$work/rootfs/etc/gitconfig"
cp /etc/resolv.conf "$work/rootfs/etc/resolv.conf"
git clone -q . "$work/src"
[ ! -d "$cache/parts" ] || cp -al "$cache/parts" "$work/root/.cache/kedify-localcluster/parts"
mkdir -p "$work/root/.cache/go-build" "$work/root/go/pkg/mod"

python3 - "$work" "$(go env GOROOT)" "$(go env GOCACHE)" "$(go env GOMODCACHE)" "$@" <<'PY'
import json, os, sys
work, goroot, gocache, gomodcache, *command = sys.argv[1:]
# The capabilities of this shell: a host may withhold some.
held = int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("CapBnd:")), 16)
known = [line.split()[1:3] for line in open("/usr/include/linux/capability.h") if line.startswith("#define CAP_")]
capabilities = [name for name, number in known if number.isdigit() and held >> int(number) & 1]
bind = lambda source, target, *options: {"destination": target, "type": "bind", "source": source, "options": ["rbind", *options]}
passed = [f"{k}={v}" for k, v in os.environ.items()
          if k.upper() in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "GOPROXY", "GOSUMDB", "PIP_INDEX_URL") or k.startswith(("LOCALCLUSTER_", "SSL_CERT"))]
mounts = [
    {"destination": "/proc", "type": "proc", "source": "proc"},
    bind("/dev", "/dev"),
    {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "noexec", "nodev"]},
    {"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": ["nosuid", "noexec", "nodev", "relatime"]},
    bind(work + "/src", "/src"), bind(work + "/root", "/root"), bind(goroot, "/usr/local/go", "ro"),
    bind(gocache, "/root/.cache/go-build"), bind(gomodcache, "/root/go/pkg/mod"),
]
namespaces = ["mount", "pid", "ipc", "uts"] + (["cgroup"] if os.path.exists("/sys/fs/cgroup/cgroup.controllers") else [])
json.dump({
    "ociVersion": "1.0.2",
    "process": {
        "terminal": False, "user": {"uid": 0, "gid": 0}, "cwd": "/src", "args": command,
        "env": ["PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "TERM=dumb", *passed],
        "capabilities": {kind: capabilities for kind in ("bounding", "effective", "permitted")},
    },
    "root": {"path": work + "/rootfs"}, "hostname": "canary-machine", "mounts": mounts,
    "linux": {"namespaces": [{"type": n} for n in namespaces], "resources": {"devices": [{"allow": True, "access": "rwm"}]}},
}, open(work + "/config.json", "w"))
PY
"${runc[@]}" run --bundle "$work" "$id" < /dev/null
