package gatewayapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/router/engine"
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

// references are the routes that a Rollout names, and those that its selections find. A selection that finds none is an error where something is to be shared.
func (r *routing) references(ctx context.Context, ask engine.Ask, chosen settings) ([]reference, error) {
	var found []reference
	var errs []error
	for _, named := range chosen.routes {
		if err := r.namespaces.check(ask, named.name.Namespace, named.field); err != nil {
			errs = append(errs, err)
			continue
		}
		found = append(found, named)
	}
	for _, which := range chosen.selections {
		names, err := r.find(ctx, ask, which)
		if err != nil {
			all := reference{kind: which.kind, name: types.NamespacedName{Namespace: which.namespace, Name: "*"}, field: which.field}
			errs = append(errs, explain(ask.Name(), all, err))
			continue
		}
		for _, name := range names {
			if !slices.ContainsFunc(found, func(t reference) bool { return t.kind == which.kind && t.name == name }) {
				found = append(found, reference{kind: which.kind, name: name, field: which.field})
			}
		}
	}
	return found, engine.Join(errs...)
}

// find returns the names of the routes of a selection, sorted.
func (r *routing) find(ctx context.Context, ask engine.Ask, which selection) (names []types.NamespacedName, err error) {
	if err := r.namespaces.check(ask, which.namespace, which.field); err != nil {
		return nil, err
	}
	err = kube.Retry(ctx, func(ctx context.Context) (err error) {
		names, err = r.client.selected(ctx, which)
		return err
	})
	switch isMissing := apierrors.IsNotFound(err) || errors.Is(err, errNotServed); {
	case isMissing && ask.Idle():
		return nil, nil
	case err != nil:
		return nil, err
	case len(names) == 0 && !ask.Idle():
		return nil, fmt.Errorf("no %s in namespace %q has these labels (%s): correct the labels there, or the selector", which.kind, which.namespace, which.labels)
	}
	slices.SortFunc(names, func(a, b types.NamespacedName) int { return cmp.Compare(a.Name, b.Name) })
	return names, nil
}

// check refuses a namespace in which the Rollout may not name routes.
func (n Namespaces) check(ask engine.Ask, namespace, field string) error {
	if n.allow(ask.Rollout.Namespace, namespace) {
		return nil
	}
	return fmt.Errorf("rollout %q: %s is in namespace %q: %w: correct it, or add the namespace to the plugin's flag -routeNamespaces",
		ask.Name(), field, namespace, errForeignNamespace)
}
