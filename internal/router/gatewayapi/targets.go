package gatewayapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/router/resilience"
)

// anyNamespace stands for all namespaces in the text of Namespaces.
const anyNamespace = "*"

// errForeignNamespace says that a Rollout names a route in a namespace where it may not.
var errForeignNamespace = errors.New("only Rollouts of that namespace may name routes there")

// Namespaces are those in which Rollouts of other namespaces may name routes. A Rollout may always name routes of its own namespace. The zero value are none.
//
// What a Rollout can do to a route of another namespace is limited anyway: it shares requests only between its own two Services, where the route's owner has named both of them,
// with their namespace, in the same rule.
type Namespaces struct {
	all   bool
	named []string
}

// String is the text that UnmarshalText reads.
func (n Namespaces) String() string {
	if n.all {
		return anyNamespace
	}
	return strings.Join(n.named, ",")
}

// MarshalText is String.
func (n Namespaces) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText reads names that are divided by commas; * stands for all, and nothing for none.
func (n *Namespaces) UnmarshalText(text []byte) error {
	*n = Namespaces{}
	for name := range strings.SplitSeq(string(text), ",") {
		switch name = strings.TrimSpace(name); name {
		case "":
		case anyNamespace:
			n.all = true
		default:
			n.named = append(n.named, name)
		}
	}
	return nil
}

// AllNamespaces are all.
func AllNamespaces() Namespaces { return Namespaces{all: true} }

// allow says whether a Rollout of namespace own may name a route of namespace other.
func (n Namespaces) allow(own, other string) bool {
	return n.all || own == other || slices.Contains(n.named, other)
}

// targets are the routes that want is about: those that the Rollout names, and those that its selections find. A selection that finds none is an error where
// something is to be shared.
func (r *Router) targets(ctx context.Context, want intent) ([]target, error) {
	targets, errs := slices.Clone(want.routes), []error{}
	for _, which := range want.selections {
		var names []types.NamespacedName
		err := r.namespaces.check(want, which.namespace, which.field)
		if err == nil {
			err = resilience.Retry(ctx, func(ctx context.Context) (err error) {
				names, err = r.client.selected(ctx, which)
				return err
			})
		}
		if isMissing(err) && want.idle() {
			continue
		}
		if err == nil && len(names) == 0 && !want.idle() {
			err = fmt.Errorf("no %s in namespace %q has these labels (%s): correct the labels there, or the selector", which.kind, which.namespace, which.labels)
		}
		if err != nil {
			errs = append(errs, explainSelection(want, which, err))
			continue
		}
		slices.SortFunc(names, func(a, b types.NamespacedName) int { return cmp.Compare(a.Name, b.Name) })
		for _, name := range names {
			if !slices.ContainsFunc(targets, func(t target) bool { return t.kind == which.kind && t.name == name }) {
				targets = append(targets, target{kind: which.kind, name: name, field: which.field})
			}
		}
	}
	for _, t := range want.routes {
		errs = append(errs, r.namespaces.check(want, t.name.Namespace, t.field))
	}
	return targets, joined(errs)
}

// check refuses a namespace in which the Rollout may not name routes.
func (n Namespaces) check(want intent, namespace, field string) error {
	if n.allow(want.asked.Namespace, namespace) {
		return nil
	}
	return fmt.Errorf("rollout %q: %s is in namespace %q: %w: correct it, or add the namespace to the plugin's flag -routeNamespaces",
		want.rollout, field, namespace, errForeignNamespace)
}
