package cluster

import (
	"net"

	"github.com/kedify/argo-rollouts-plugin/localcluster/pki"
)

// Certificates returns the identities that the components need.
func Certificates(s Settings) pki.Plan {
	return pki.Plan{
		Server: s.APIServer(),
		Serving: pki.Subject{
			CommonName: "kube-apiserver",
			Names: []string{
				"localhost", NodeName, "kubernetes", "kubernetes.default",
				"kubernetes.default.svc", "kubernetes.default.svc." + Domain,
			},
			IPs: []net.IP{
				net.ParseIP("127.0.0.1"), net.ParseIP(s.Addresses.Node), net.ParseIP(s.Addresses.APIService),
			},
		},
		Clients: map[string]pki.Subject{
			"admin":                   {CommonName: "kubernetes-admin", Groups: []string{"system:masters"}},
			"kube-controller-manager": {CommonName: "system:kube-controller-manager"},
			"kube-scheduler":          {CommonName: "system:kube-scheduler"},
			"kube-proxy":              {CommonName: "system:kube-proxy"},
			"kubelet":                 {CommonName: "system:node:" + NodeName, Groups: []string{"system:nodes"}},
		},
	}
}
