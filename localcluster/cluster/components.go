package cluster

import (
	"fmt"
	"net"
	"strings"
)

// Component is one process of the node.
type Component struct {
	// Name is the name of the component, of its binary and of its log.
	Name string
	// Args are the arguments of its command line.
	Args []string
	// Ready is the probe of its readiness.
	Ready Probe
	// After names components that must be ready before this one starts.
	After []string
}

// Probe is a readiness check. Exactly one field is set.
type Probe struct {
	// URL returns status 200.
	URL string
	// Socket is a Unix socket that accepts connections.
	Socket string
}

// Components returns the node's processes. Components that wait for the same others start in this order.
func Components(s Settings) []Component {
	all := []Component{
		etcd(s), apiserver(s), controllerManager(s), scheduler(s),
		containerd(s), kubelet(s), kubeProxy(s),
	}
	for i := range all {
		all[i].Args = append(all[i].Args, s.ExtraArgs[all[i].Name]...)
	}
	return all
}

func etcd(s Settings) Component {
	client := fmt.Sprintf("http://127.0.0.1:%d", EtcdPort)
	return Component{
		Name: "etcd",
		Args: []string{
			"--data-dir=" + s.Path("etcd"),
			"--listen-client-urls=" + client,
			"--advertise-client-urls=" + client,
			"--listen-peer-urls=http://127.0.0.1:2380",
			// The data is deleted with the cluster, so a lost write does no harm.
			"--unsafe-no-fsync=true",
			"--log-level=warn",
		},
		Ready: Probe{URL: client + "/health"},
	}
}

func apiserver(s Settings) Component {
	pki := func(name string) string { return s.Path("pki", name) }
	return Component{
		Name: "kube-apiserver",
		Args: []string{
			fmt.Sprintf("--etcd-servers=http://127.0.0.1:%d", EtcdPort),
			"--advertise-address=" + s.Addresses.Node,
			fmt.Sprintf("--secure-port=%d", APIPort),
			"--service-cluster-ip-range=" + s.Addresses.Services,
			"--allow-privileged=true",
			"--authorization-mode=Node,RBAC",
			// The registry runs on the same node, so a pull for each pod costs nothing. The next pod then runs an image
			// that was rebuilt.
			"--enable-admission-plugins=NodeRestriction,AlwaysPullImages",
			"--client-ca-file=" + pki("ca.crt"),
			"--tls-cert-file=" + pki("apiserver.crt"),
			"--tls-private-key-file=" + pki("apiserver.key"),
			"--kubelet-client-certificate=" + pki("kubelet-client.crt"),
			"--kubelet-client-key=" + pki("kubelet-client.key"),
			// The node's name is not in DNS, so logs and port-forward use addresses.
			"--kubelet-preferred-address-types=InternalIP",
			"--service-account-issuer=https://kubernetes.default.svc." + Domain,
			"--service-account-key-file=" + pki("sa.pub"),
			"--service-account-signing-key-file=" + pki("sa.key"),
			// Aggregated APIs (KEDA's metrics) need the front proxy's identity.
			"--enable-aggregator-routing=true",
			"--requestheader-client-ca-file=" + pki("front-proxy-ca.crt"),
			"--requestheader-allowed-names=front-proxy-client",
			"--requestheader-extra-headers-prefix=X-Remote-Extra-",
			"--requestheader-group-headers=X-Remote-Group",
			"--requestheader-username-headers=X-Remote-User",
			"--proxy-client-cert-file=" + pki("front-proxy.crt"),
			"--proxy-client-key-file=" + pki("front-proxy.key"),
			"--profiling=false",
		},
		// Anonymous requests may read the health endpoints.
		Ready: Probe{URL: s.APIServer() + "/readyz"},
		After: []string{"etcd"},
	}
}

func controllerManager(s Settings) Component {
	return Component{
		Name: "kube-controller-manager",
		Args: []string{
			"--kubeconfig=" + s.Path("pki", "kube-controller-manager.kubeconfig"),
			"--authentication-kubeconfig=" + s.Path("pki", "kube-controller-manager.kubeconfig"),
			"--authorization-kubeconfig=" + s.Path("pki", "kube-controller-manager.kubeconfig"),
			"--bind-address=127.0.0.1",
			"--cluster-name=localcluster",
			"--cluster-signing-cert-file=" + s.Path("pki", "ca.crt"),
			"--cluster-signing-key-file=" + s.Path("pki", "ca.key"),
			// Without it the ca.crt in pods is empty.
			"--root-ca-file=" + s.Path("pki", "ca.crt"),
			"--service-account-private-key-file=" + s.Path("pki", "sa.key"),
			"--use-service-account-credentials=true",
			"--leader-elect=false",
			"--flex-volume-plugin-dir=" + s.Path("kubelet", "plugins"),
			// Users watch the scaling.
			"--horizontal-pod-autoscaler-sync-period=2s",
			"--profiling=false",
		},
		Ready: Probe{URL: "https://127.0.0.1:10257/healthz"},
		After: []string{"kube-apiserver"},
	}
}

func scheduler(s Settings) Component {
	return Component{
		Name: "kube-scheduler",
		Args: []string{
			"--kubeconfig=" + s.Path("pki", "kube-scheduler.kubeconfig"),
			"--authentication-kubeconfig=" + s.Path("pki", "kube-scheduler.kubeconfig"),
			"--authorization-kubeconfig=" + s.Path("pki", "kube-scheduler.kubeconfig"),
			"--bind-address=127.0.0.1",
			"--leader-elect=false",
			"--profiling=false",
		},
		Ready: Probe{URL: "https://127.0.0.1:10259/healthz"},
		After: []string{"kube-apiserver"},
	}
}

func containerd(s Settings) Component {
	return Component{
		Name:  "containerd",
		Args:  []string{"--config", s.Path("etc", "containerd.toml"), "--log-level", "info"},
		Ready: Probe{Socket: ContainerdSocket},
	}
}

func kubelet(s Settings) Component {
	return Component{
		Name: "kubelet",
		Args: []string{
			"--config=" + s.Path("etc", "kubelet.yaml"),
			"--kubeconfig=" + s.Path("pki", "kubelet.kubeconfig"),
			"--root-dir=" + s.Path("kubelet"),
			"--cert-dir=" + s.Path("kubelet", "pki"),
			"--hostname-override=" + NodeName,
			"--node-ip=" + s.Addresses.Node,
		},
		Ready: Probe{URL: "http://127.0.0.1:10248/healthz"},
		After: []string{"kube-apiserver", "containerd"},
	}
}

func kubeProxy(s Settings) Component {
	return Component{
		Name: "kube-proxy",
		Args: []string{
			"--kubeconfig=" + s.Path("pki", "kube-proxy.kubeconfig"),
			"--proxy-mode=nftables",
			"--cluster-cidr=" + s.Addresses.Pods,
			"--hostname-override=" + NodeName,
			// The host configures the size of connection tracking; a namespace may not change it.
			"--conntrack-max-per-core=0",
			"--conntrack-min=0",
			"--oom-score-adj=0",
			"--healthz-bind-address=" + net.JoinHostPort("127.0.0.1", "10256"),
		},
		Ready: Probe{URL: "http://127.0.0.1:10256/livez"},
		After: []string{"kube-apiserver"},
	}
}

// String formats a probe.
func (p Probe) String() string {
	return strings.TrimSpace(p.URL + p.Socket)
}
