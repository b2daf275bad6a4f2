package host

import (
	"bytes"
	"fmt"
	"os"

	"github.com/kedify/argo-rollouts-plugin/localcluster/cluster"
)

// APIAddress is the name of the forward to the API server.
const APIAddress = "apiserver"

// hostKubeconfig writes the administrator's kubeconfig with the API server's address on the host, owned by the user who
// started the cluster, and returns its path.
func hostKubeconfig(s cluster.Settings, address string, owner int) (string, error) {
	inside, err := os.ReadFile(s.Path("pki", "admin.kubeconfig"))
	if err != nil {
		return "", fmt.Errorf("read the administrator's kubeconfig: %w", err)
	}
	path := s.Path("kubeconfig")
	outside := bytes.ReplaceAll(inside, []byte(s.APIServer()), []byte("https://"+address))
	if err := os.WriteFile(path, outside, 0o600); err != nil {
		return "", fmt.Errorf("write the kubeconfig: %w", err)
	}
	if err := os.Chown(path, owner, -1); err != nil {
		return "", fmt.Errorf("change the owner of the kubeconfig to user %d: %w", owner, err)
	}
	return path, nil
}
