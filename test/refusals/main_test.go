package refusals_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/test/kit/netspace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
)

// argoManifest is the official manifest of Argo Rollouts, in the prepared folder.
const argoManifest = "argo-rollouts.yaml"

func TestMain(m *testing.M) { os.Exit(netspace.Main(m, prepare)) }

// prepare builds the programs and finds the manifest of Argo Rollouts. It needs the network of the machine if the
// module cache does not contain Argo Rollouts.
func prepare(folder string) error {
	ctx := context.Background()
	argo, err := program.ModuleFolder(ctx, ".", "list", "-m", "-json", "github.com/argoproj/argo-rollouts")
	if err != nil {
		return err
	}
	manifest, err := os.ReadFile(filepath.Join(argo, "manifests", "install.yaml"))
	return errors.Join(err,
		os.WriteFile(filepath.Join(folder, argoManifest), manifest, 0o600),
		program.Build(ctx, folder, "v9.9.9-test", "interceptor", "rollouts-plugin-kedify"),
	)
}
