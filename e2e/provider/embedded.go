package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
)

// embedded is the cluster of package localcluster. root has access to its inside.
type embedded struct {
	Options

	owns, up bool
}

// Up implements Provider. A running cluster gets the programs of this checkout and the missing add-ons. A cluster that
// an earlier Up started stays owned.
func (e *embedded) Up(ctx context.Context, spec Spec) (*Cluster, error) {
	began := time.Now()
	before, err := e.Local.Status(ctx)
	if err != nil {
		return nil, err
	}
	isOurs := before.State == Stopped || before.State == Broken || before.Transient
	e.owns = e.owns || isOurs
	if !e.up {
		e.Report(progressLine(before.State, isOurs))
	}
	if err := e.Local.run(ctx, arguments(spec)...); err != nil {
		return nil, err
	}
	s, err := e.Local.Status(ctx)
	if err != nil {
		return nil, err
	}
	if s.State != Running {
		return nil, fmt.Errorf("the local cluster is %s after its start", s.State)
	}
	if !e.up {
		e.Report(fmt.Sprintf("The local cluster is up after %.1f s.", time.Since(began).Seconds()))
	}
	e.up = true
	c := &Cluster{
		Name: "the local cluster", Kubeconfig: s.Kubeconfig, Bin: s.Bin, Logs: s.Logs, Node: s.Node,
		StartSeconds: s.StartSeconds, Addresses: s.Addresses,
	}
	c.Runner = kube.Exec{Env: kube.Environment(e.Environ, s.Bin, s.Kubeconfig, e.Cache(c))}
	return c, nil
}

// progressLine describes what happens to a cluster in that state.
func progressLine(state string, owns bool) string {
	switch {
	case state != Running:
		return fmt.Sprintf("The local cluster is %s; it is being started.", state)
	case owns:
		return "The local cluster runs, left by an earlier demo; it gets this checkout's programs, and it is " +
			"deleted at the end."
	default:
		return "The local cluster runs; it gets this checkout's programs."
	}
}

// arguments returns the arguments of `localcluster up`.
func arguments(w Spec) []string {
	args := []string{"up"}
	if !w.Keep {
		args = append(args, "--transient")
	}
	for _, addon := range w.Addons {
		args = append(args, "--with", addon)
	}
	for _, name := range slices.Sorted(maps.Keys(w.Forwards)) {
		args = append(args, "--forward", name+"="+w.Forwards[name])
	}
	for _, name := range slices.Sorted(maps.Keys(w.Programs)) {
		args = append(args, "--binary", name+"="+w.Programs[name])
	}
	for _, arg := range w.ExtraArgs {
		args = append(args, "--extra-arg", arg)
	}
	return args
}

// Owns implements Provider.
func (e *embedded) Owns() bool { return e.owns }

// Down implements Provider. After a failed start the cluster has already ended; only its logs remain for the user.
func (e *embedded) Down(ctx context.Context) error {
	if !e.owns {
		return nil
	}
	s, err := e.Local.Status(ctx)
	if err == nil && (s.State == Stopped || s.State == Broken && !e.up) {
		e.Report("No local cluster runs.")
		return nil
	}
	e.Report("The local cluster is being deleted.")
	return errors.Join(err, e.Local.run(ctx, "down"))
}
