package cluster

import (
	"fmt"
	"strings"
)

// Files returns the configuration files of the components: path below the run directory to content.
func Files(s Settings) map[string]string {
	return map[string]string{
		"etc/containerd.toml":              containerdConfig(s),
		"etc/certs.d/_default/hosts.toml":  registryHosts(s),
		"etc/kubelet.yaml":                 kubeletConfig(s),
		"etc/cni/10-localcluster.conflist": networkConfig(s),
		"etc/resolv.conf":                  ResolvConf(s),
		"bin/runc":                         wrapper(s, "usr/sbin/runc"),
		"bin/nft":                          wrapper(s, "usr/sbin/nft"),
	}
}

// Executable reports which of Files are programs.
func Executable(path string) bool { return strings.HasPrefix(path, "bin/") }

// SandboxImage is the image of every pod's sandbox.
const SandboxImage = "registry.k8s.io/pause:3.10"

func containerdConfig(s Settings) string {
	return fmt.Sprintf(`version = 3
root = %q
state = "/run/containerd"

[grpc]
  address = %q

[plugins."io.containerd.cri.v1.runtime"]
  # A machine without CAP_SYS_RESOURCE may not lower a score; runc would fail.
  restrict_oom_score_adj = true
  # Profiles are loaded into the host's kernel for good: leave it alone.
  disable_apparmor = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = [%q]
    conf_dir = %q
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = %q
      SystemdCgroup = false

[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = %q

[plugins."io.containerd.cri.v1.images".registry]
  config_path = %q
`, s.Path("containerd"), ContainerdSocket, s.Bin, s.Path("etc", "cni"), s.Path("bin", "runc"), SandboxImage, s.Path("etc", "certs.d"))
}

// registryHosts redirects the pull of every image, from any registry, to the cluster's own registry, so that official
// manifests apply unchanged (https://github.com/containerd/containerd/blob/main/docs/hosts.md).
func registryHosts(s Settings) string {
	return fmt.Sprintf("[host.\"http://%s\"]\n  capabilities = [\"pull\", \"resolve\"]\n", s.Registry())
}

func kubeletConfig(s Settings) string {
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: %[1]s
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: %[2]q}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
cgroupRoot: %[3]q
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
oomScoreAdj: 0
clusterDNS: [%[4]s]
clusterDomain: %[5]s
containerRuntimeEndpoint: unix://%[6]s
podLogsDir: %[7]q
resolvConf: %[8]q
volumePluginDir: %[9]q
evictionHard: {nodefs.available: 1%%, imagefs.available: 1%%, memory.available: 50Mi}
imageGCHighThresholdPercent: 100
# Pods start and stop by the dozen here: don't throttle reports and pulls.
serializeImagePulls: false
registryPullQPS: 0
eventRecordQPS: 0
kubeAPIQPS: 50
kubeAPIBurst: 100
syncFrequency: 10s
nodeStatusUpdateFrequency: 4s
shutdownGracePeriod: 0s
`, s.Addresses.Node, s.Path("pki", "ca.crt"), s.PodsCgroup(), s.Addresses.DNS, Domain, ContainerdSocket,
		s.Path("logs", "pods"), s.Path("etc", "resolv.conf"), s.Path("kubelet", "plugins"))
}

// networkConfig gives each pod a veth pair to the node, which routes between them: without a bridge, nothing depends on
// br_netfilter.
func networkConfig(s Settings) string {
	return fmt.Sprintf(`{
  "cniVersion": "1.0.0",
  "name": "localcluster",
  "plugins": [
    {
      "type": "ptp",
      "mtu": 1500,
      "ipam": {
        "type": "host-local",
        "dataDir": %q,
        "ranges": [[{"subnet": %q}]],
        "routes": [{"dst": "0.0.0.0/0"}]
      }
    }
  ]
}
`, s.Path("cni"), s.Addresses.Pods)
}

// ResolvConf is the resolver configuration of the node and of pods with dnsPolicy Default. The cluster has no route to
// the Internet, so its own name server is the only one.
func ResolvConf(s Settings) string {
	return fmt.Sprintf("nameserver %s\n", s.Addresses.DNS)
}

// wrapper runs a program of an unpacked Debian package with the package's own libraries.
func wrapper(s Settings, program string) string {
	return fmt.Sprintf(`#!/bin/sh
root=%q
LD_LIBRARY_PATH=$(echo "$root"/usr/lib/*-linux-gnu | tr ' ' ':') exec "$root/%s" "$@"
`, s.Bin+"/debian", program)
}
