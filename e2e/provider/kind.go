package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
)

// kind is a cluster of https://kind.sigs.k8s.io, which requires a container engine. It gets the images and the
// installation steps of the embedded cluster.
type kind struct {
	Options

	owns   bool
	folder string // of the cluster's kubeconfig and images
}

const (
	// kindName is the name of the cluster. An existing cluster with that name belongs to the user.
	kindName = "kedify-canary-demo"
	// kindTimeout is the time limit for the start of the cluster with the pull of its image, and for the export of the
	// images.
	kindTimeout = 30 * time.Minute
)

// exported is the output of `localcluster export`.
type exported struct {
	// Images is a file of images in the format of `docker save`.
	Images string `json:"images"`
	// Steps are kubectl commands.
	Steps []struct {
		Title   string        `json:"title"`
		Args    []string      `json:"args"`
		Timeout time.Duration `json:"timeout"`
	} `json:"steps"`
}

// Up implements Provider.
func (k *kind) Up(ctx context.Context, spec Spec) (*Cluster, error) {
	if len(spec.Addons)+len(spec.Forwards)+len(spec.Programs)+len(spec.ExtraArgs) > 0 {
		return nil, fmt.Errorf("%w: kind gets the canary's own parts and nothing else: use the embedded one", ErrUnsupported)
	}
	if err := checkInPath("kind", "kubectl", "kubectl-argo-rollouts"); err != nil {
		return nil, err
	}
	if err := k.create(ctx); err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(k.folder, "kubeconfig")
	c := &Cluster{Name: "kind's cluster " + kindName, Kubeconfig: kubeconfig}
	env := slices.DeleteFunc(slices.Clone(k.Environ),
		func(entry string) bool { return strings.HasPrefix(entry, "KUBECONFIG=") })
	c.Runner = kube.Exec{Env: append(env, "KUBECONFIG="+kubeconfig)}
	return c, k.install(ctx, c)
}

// create creates the cluster.
func (k *kind) create(ctx context.Context) error {
	out, err := k.run(ctx, "get", "clusters")
	if err != nil {
		return err
	}
	if slices.Contains(strings.Fields(out), kindName) {
		return fmt.Errorf("%w: a cluster %s of kind is there already; delete it (kind delete cluster --name %s), "+
			"or use it as yours (PROVIDER=existing)", ErrUnsupported, kindName, kindName)
	}
	if k.folder, err = os.MkdirTemp("", kindName+"-"); err != nil {
		return fmt.Errorf("make the folder for kind's kubeconfig: %w", err)
	}
	k.owns = true
	k.Report("kind makes the cluster " + kindName + ".")
	_, err = k.run(ctx, "create", "cluster", "--name", kindName, "--kubeconfig",
		filepath.Join(k.folder, "kubeconfig"), "--wait", "2m")
	return err
}

// install installs the components of this checkout.
func (k *kind) install(ctx context.Context, c *Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, kindTimeout)
	defer cancel()
	out, err := k.Local.output(ctx, "export", filepath.Join(k.folder, "export"))
	if err != nil {
		return err
	}
	var parts exported
	if err := json.Unmarshal(out, &parts); err != nil {
		return fmt.Errorf("read the output of %s export: %w", k.Local.Path, err)
	}
	if _, err := k.run(ctx, "load", "image-archive", parts.Images, "--name", kindName); err != nil {
		return err
	}
	for _, step := range parts.Steps {
		k.Report("  " + step.Title)
		// Images are pulled from a remote registry here, not loaded from this machine.
		within, cancel := context.WithTimeout(ctx, 5*step.Timeout)
		_, err := c.Run(within, append([]string{"kubectl"}, step.Args...)...)
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", step.Title, err)
		}
	}
	return nil
}

// run runs the command kind.
func (k *kind) run(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, kindTimeout)
	defer cancel()
	return kube.Exec{Env: k.Environ}.Run(ctx, append([]string{"kind"}, args...)...)
}

// Owns implements Provider.
func (k *kind) Owns() bool { return k.owns }

// Down implements Provider.
func (k *kind) Down(ctx context.Context) error {
	if !k.owns {
		return nil
	}
	k.Report("The cluster " + kindName + " of kind is deleted.")
	_, err := k.run(ctx, "delete", "cluster", "--name", kindName)
	return errors.Join(err, os.RemoveAll(k.folder))
}

// checkInPath checks that programs are installed.
func checkInPath(programs ...string) error {
	from := map[string]string{
		"kind":                  "https://kind.sigs.k8s.io/docs/user/quick-start/#installation",
		"kubectl":               "https://kubernetes.io/docs/tasks/tools",
		"kubectl-argo-rollouts": "https://argo-rollouts.readthedocs.io/en/stable/installation/#kubectl-plugin-installation",
	}
	var missing []error
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, fmt.Errorf("%w: %s is needed in $PATH: see %s", ErrUnsupported, program, from[program]))
		}
	}
	return errors.Join(missing...)
}
