// Package install lists what is put into the embedded cluster once it runs, as
// kubectl commands that a person could type.
package install

import (
	"path/filepath"
	"time"
)

// Step is one kubectl command.
type Step struct {
	// Title says what the step does, for progress and errors.
	Title string `json:"title"`
	// Args are the arguments of kubectl.
	Args []string `json:"args"`
	// Timeout bounds the step.
	Timeout time.Duration `json:"timeout"`
}

// Sources are the folders with manifests.
type Sources struct {
	// Repo is the root of this repository.
	Repo string
	// RolloutsManifest is Argo Rollouts' official install.yaml.
	RolloutsManifest string
}

const (
	applyTimeout = 30 * time.Second
	// readyTimeout bounds the wait for a Deployment: image pulls are local, so
	// anything longer is a fault.
	readyTimeout = 90 * time.Second
)

// Bare returns the steps of a cluster with nothing but DNS in it.
func Bare(s Sources) []Step {
	return []Step{applyDNS(s), ready("kube-system", "coredns")}
}

// Steps returns the steps of the whole cluster, in their order. All is applied first and waited for
// at the end, so that the parts start side by side.
func Steps(s Sources) []Step {
	config := func(elements ...string) string {
		return filepath.Join(append([]string{s.Repo, "config"}, elements...)...)
	}
	return []Step{
		applyDNS(s),
		apply("the HTTPScaledObject API", "-f", config("crd")),
		create("namespace argo-rollouts", "namespace", "argo-rollouts"),
		apply("Argo Rollouts' official install.yaml", "-n", "argo-rollouts", "-f", s.RolloutsManifest),
		apply("the plugin's RBAC", "-f", config("argo-rollouts", "rbac.yaml")),
		apply("the plugin's registration", "-f", config("argo-rollouts", "config.yaml")),
		{
			Title:   "load the plugin by an init container",
			Args:    []string{"patch", "-n", "argo-rollouts", "deployment", "argo-rollouts", "--patch-file", config("argo-rollouts", "deployment-patch.yaml")},
			Timeout: applyTimeout,
		},
		apply("the interceptor", "-k", config("interceptor")),
		ready("kube-system", "coredns"),
		ready("argo-rollouts", "argo-rollouts"),
		ready("keda", "keda-add-ons-http-interceptor"),
	}
}

func apply(title string, args ...string) Step {
	return Step{
		Title:   "apply " + title,
		Args:    append([]string{"apply", "--server-side", "--force-conflicts"}, args...),
		Timeout: applyTimeout,
	}
}

func applyDNS(s Sources) Step {
	return apply("CoreDNS", "-f", filepath.Join(s.Repo, "localcluster", "install", "coredns.yaml"))
}

func create(title string, args ...string) Step {
	return Step{Title: "create " + title, Args: append([]string{"create"}, args...), Timeout: applyTimeout}
}

func ready(namespace, deployment string) Step {
	return Step{
		Title:   "wait for " + namespace + "/" + deployment,
		Args:    []string{"rollout", "status", "-n", namespace, "deployment/" + deployment},
		Timeout: readyTimeout,
	}
}
