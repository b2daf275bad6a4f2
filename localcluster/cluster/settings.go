// Package cluster describes the embedded cluster as plain values: its addresses and folders, its processes, their
// configuration files and their readiness probes. It starts nothing and reads nothing; package node starts what this
// package describes.
package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"path/filepath"
	"strconv"
)

// Addresses are the address ranges of the cluster. They exist only in the cluster's own network namespace, so they
// conflict with nothing on the host.
type Addresses struct {
	// Node is the node's own address.
	Node string `json:"node"`
	// Pods is the CIDR of pod addresses.
	Pods string `json:"pods"`
	// Services is the CIDR of ClusterIPs.
	Services string `json:"services"`
	// APIService is the ClusterIP of Service kubernetes: the first of Services.
	APIService string `json:"apiService"`
	// DNS is the ClusterIP of the cluster's DNS server.
	DNS string `json:"dns"`
}

// DefaultAddresses returns the default ranges.
func DefaultAddresses() Addresses {
	return Addresses{
		Node:       "10.244.0.1",
		Pods:       "10.245.0.0/24",
		Services:   "10.96.0.0/16",
		APIService: "10.96.0.1",
		DNS:        "10.96.0.10",
	}
}

// Ports of the node's processes, all in the cluster's own network namespace.
const (
	APIPort      = 6443
	EtcdPort     = 2379
	RegistryPort = 5000
)

// Domain is the DNS domain of the cluster's Services.
const Domain = "cluster.local"

// NodeName is the name of the cluster's only node.
const NodeName = "localcluster"

// Settings are all inputs of a cluster's description.
type Settings struct {
	// Name distinguishes clusters on the same machine. It is the name of the cgroup.
	Name string `json:"name"`
	// Dir is the run directory: the cluster writes only below it.
	Dir string `json:"dir"`
	// Bin is the folder with the component binaries.
	Bin string `json:"bin"`
	// Reads are the folders outside of Dir that the node reads, at their original paths: built programs and manifests.
	Reads []string `json:"reads"`
	// UnifiedCgroups reports whether the machine has cgroups version 2.
	UnifiedCgroups bool `json:"unifiedCgroups"`
	// Addresses are the cluster's address ranges.
	Addresses Addresses `json:"addresses"`
	// ExtraArgs are appended to a component's command line, by component name. They are for trying out flags and for
	// injecting faults.
	ExtraArgs map[string][]string `json:"extraArgs,omitempty"`
}

// Path joins elements below the run directory.
func (s Settings) Path(elements ...string) string {
	return filepath.Join(append([]string{s.Dir}, elements...)...)
}

// NameOf returns the name of a cluster on this machine. It is derived from the path of the checkout, so that two
// checkouts have two clusters, and from name, which distinguishes the clusters of one checkout and may be empty.
func NameOf(repo, name string) string {
	key := repo
	if name != "" {
		key += "\x00" + name
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])[:8]
}

// Cgroup is the path of the cluster's cgroup below each hierarchy's root, unless systemd delegated one.
func (s Settings) Cgroup() string { return "/kedify-localcluster-" + s.Name }

// PodsCgroup is the path of the kubelet's cgroup for pods, as the node sees it: with version 2 the cluster's own cgroup
// is the root there.
func (s Settings) PodsCgroup() string {
	if s.UnifiedCgroups {
		return "/pods"
	}
	return s.Cgroup() + "/pods"
}

// APIServer is the URL of the API server inside the cluster.
func (s Settings) APIServer() string {
	return "https://" + net.JoinHostPort(s.Addresses.Node, strconv.Itoa(APIPort))
}

// Registry is the address of the image registry inside the cluster.
func (s Settings) Registry() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(RegistryPort))
}

// ContainerdSocket is the socket of the container runtime. The run folder is a file system of the cluster's own, so the
// default path is free.
const ContainerdSocket = "/run/containerd/containerd.sock"
