package coldstart

import (
	"context"
	"os"
	"path/filepath"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
)

// ScalerAddress is the gRPC address of the scaler.
const ScalerAddress = "127.0.0.1:19090"

// StartScaler starts the built scaler as its ServiceAccount, without TLS to the interceptors and with more arguments. It
// does not wait until the scaler is ready.
func (s *Testbed) StartScaler(ctx context.Context, arguments ...string) (*program.Process, error) {
	err := apiserver.ApplyFiles(ctx, s.Admin, "", filepath.Join(s.Repository, "config/scaler/rbac.yaml"))
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp(s.Folder, "scaler")
	if err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(folder, "kubeconfig")
	if err := s.Plane.WriteKubeconfig(kubeconfig, apiserver.ScalerToken); err != nil {
		return nil, err
	}
	return program.Start(ctx, folder, filepath.Join(s.Built, "scaler"), append([]string{
		"--kubeconfig=" + kubeconfig, "--grpc-address=" + ScalerAddress, "--health-address=127.0.0.1:0",
		"--metrics-address=127.0.0.1:0", "--interceptor-ca=",
	}, arguments...)...)
}
