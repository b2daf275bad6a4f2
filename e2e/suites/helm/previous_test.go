package helm

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
)

// previousTag is the tag of the images of the previous version.
const previousTag = "0123456"

// previous builds the images of the previous version, and pushes them to the registry of the cluster.
func (e *environment) previous(t *testing.T) version {
	t.Helper()
	v := version{source: os.Getenv("HELM_PREVIOUS"), tag: previousTag}
	if v.source == "" {
		t.Fatal("HELM_PREVIOUS is not set: run this test by `make test-helm`")
	}
	step(t, "the images of the previous version are pushed", func(t *testing.T) {
		t.Helper()
		build := exec.CommandContext(t.Context(), os.Getenv("LOCALCLUSTER_BIN"), "--repo", v.source,
			"--cache", os.Getenv("LOCALCLUSTER_CACHE"), "images", "--architecture", "amd64",
			"--registry", "registry.local/kedify", "--tag", v.tag,
			"--socket", testbed.RegistrySocket(e.Cluster), t.TempDir())
		if output, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
	})
	return v
}

// change replaces components by those of a version.
type change func(ctx context.Context, e *environment, v version) error

// applied returns a change that applies the objects of components, and waits until no older Pod of them is left.
func applied(components ...string) change {
	return func(ctx context.Context, e *environment, v version) error {
		script := fmt.Sprintf(`helm template kedify-http charts/kedify-http --namespace keda %s |
  kubectl apply --server-side --force-conflicts -f - -l 'app.kubernetes.io/component in (%s)'`,
			values, strings.Join(components, ","))
		if out, err := e.try(ctx, v.tag, script); err != nil {
			return fmt.Errorf("apply %v of %s: %w\n%s", components, v.source, err, out)
		}
		return e.awaitComponents(ctx)
	}
}

// values are the values of the chart in docs/how-to/install.md, for two proxies. The test registers the plugins itself.
const values = "--set image.registry=registry.example.com/kedify --set-string image.tag=$IMAGE_TAG " +
	"--set proxies.replicas=2"

// crd applies the CRD.
func crd(ctx context.Context, e *environment, v version) error {
	out, err := e.try(ctx, v.tag, "kubectl apply --server-side --force-conflicts -f config/crd")
	if err != nil {
		return fmt.Errorf("apply the CRD: %w\n%s", err, out)
	}
	return nil
}

// plugins replaces the router plugin, which restarts the Argo Rollouts controller.
func plugins(ctx context.Context, e *environment, v version) error {
	out, err := e.try(ctx, v.tag, e.loadPlugins)
	if err != nil {
		return fmt.Errorf("replace the plugins: %w\n%s", err, out)
	}
	return nil
}

// TestSideBySide replaces the components of the previous version one by one by those of this version, and back, each
// time during a canary at 250 requests per second. No request fails, and each step completes only after every proxy has
// its weight.
func TestSideBySide(t *testing.T) {
	e := launch(t)
	old, current := e.previous(t), version{source: e.Repo, tag: firstTag}
	step(t, "the previous version is installed", func(t *testing.T) {
		t.Helper()
		e.use(t, old)
		e.run(t, "helm template kedify-http charts/kedify-http --namespace keda --set argoRollouts.registerPlugins=true "+
			values+" | kubectl apply --server-side --force-conflicts -f -")
		if err := plugins(t.Context(), e, old); err != nil {
			t.Fatal(err)
		}
		if err := e.awaitComponents(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	e.DeployAutowired(t)
	for _, order := range []struct {
		name, from, color string
		to                version
		// at are the changes at the pauses.
		at [3][]change
	}{
		{
			"the order of an upgrade", "blue", "yellow", current,
			[3][]change{{crd, applied("interceptor")}, {applied("scaler"), applied("agent")}, {plugins}},
		},
		{
			"the order of a downgrade", "yellow", "blue", old,
			[3][]change{{plugins}, {applied("agent"), applied("scaler")}, {applied("interceptor")}},
		},
		{
			"the plugins first", "blue", "yellow", current,
			[3][]change{{plugins}, {crd, applied("interceptor"), applied("agent")}, {applied("scaler")}},
		},
	} {
		step(t, order.name, func(t *testing.T) {
			t.Helper()
			e.use(t, order.to)
			e.runCanary(t, order.from, order.color, func(ctx context.Context, trial *testbed.Trial) error {
				for pause, changes := range order.at {
					for _, replace := range changes {
						if err := replace(ctx, e, order.to); err != nil {
							return err
						}
					}
					if pause+1 == len(order.at) {
						break
					}
					if err := trial.RunStep(ctx, pause+1, []int{20, 50, 80}[pause+1]); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}
