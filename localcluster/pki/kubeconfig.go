package pki

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
)

// Kubeconfig renders a kubeconfig with all data inline, so that it can be copied.
func Kubeconfig(server string, ca []byte, id Identity) []byte {
	encode := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- name: localcluster
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: user
  user:
    client-certificate-data: %s
    client-key-data: %s
contexts:
- name: localcluster
  context:
    cluster: localcluster
    user: user
current-context: localcluster
`, server, encode(ca), encode(id.CertPEM), encode(id.KeyPEM))
}

// Plan lists the certificates that a cluster needs.
type Plan struct {
	// Server is the API server's address inside the cluster, as a URL.
	Server string
	// Serving is the subject of the API server's serving certificate.
	Serving Subject
	// Clients are the components with a kubeconfig, by file name.
	Clients map[string]Subject
}

// WriteAll creates all keys and certificates of a cluster below dir: ca, front-proxy-ca, front-proxy, apiserver,
// kubelet-client and sa, and a NAME.kubeconfig for each client of the plan.
func WriteAll(dir string, plan Plan, ca, frontProxy *Authority) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create the certificate folder: %w", err)
	}
	caID, err := ca.Identity()
	if err != nil {
		return err
	}
	frontID, err := frontProxy.Identity()
	if err != nil {
		return err
	}
	identities := map[string]Identity{"ca": caID, "front-proxy-ca": frontID}
	issues := []struct {
		name string
		from *Authority
		to   Subject
	}{
		{"apiserver", ca, plan.Serving},
		{"kubelet-client", ca, Subject{CommonName: "kube-apiserver-kubelet-client", Groups: []string{"system:masters"}}},
		{"front-proxy", frontProxy, Subject{CommonName: "front-proxy-client"}},
	}
	for _, i := range issues {
		if identities[i.name], err = i.from.Issue(i.to); err != nil {
			return err
		}
	}
	for name, id := range identities {
		if err := id.Write(dir, name); err != nil {
			return err
		}
	}
	if err := writeServiceAccountKey(dir); err != nil {
		return err
	}
	return writeKubeconfigs(dir, plan, ca)
}

func writeKubeconfigs(dir string, plan Plan, ca *Authority) error {
	for name, subject := range plan.Clients {
		id, err := ca.Issue(subject)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name+".kubeconfig"), Kubeconfig(plan.Server, ca.CertPEM(), id),
			0o600); err != nil {
			return fmt.Errorf("write the kubeconfig of %s: %w", name, err)
		}
	}
	return nil
}

func writeServiceAccountKey(dir string) error {
	private, public, err := ServiceAccountKey()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "sa.key"), private, 0o600); err != nil {
		return fmt.Errorf("write the service account key: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sa.pub"), public, 0o600); err != nil {
		return fmt.Errorf("write the service account key: %w", err)
	}
	return nil
}
