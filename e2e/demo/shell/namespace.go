package shell

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrForeign means that something has the demo's name and is not the demo's.
var ErrForeign = errors.New("not touched")

// Mark is the label of the demo's own namespaces, in e2e/demo.
const Mark = "app.kubernetes.io/managed-by=kedify-canary-demo"

// named selects a namespace by its name.
func named(namespace string) string { return "kubernetes.io/metadata.name=" + namespace }

// Free deletes what an earlier run has left of a namespace, within a time. A namespace of that name that is
// not the demo's is the user's.
func (s Shell) Free(ctx context.Context, namespace string, within time.Duration) error {
	there := func(selector string) (bool, error) {
		out, err := s.Run(ctx, "kubectl", "get", "ns", "-l", selector, "-o", "name")
		return strings.TrimSpace(out) != "", err
	}
	found, err := there(named(namespace))
	if err != nil || !found {
		return err
	}
	ours, err := there(named(namespace) + "," + Mark)
	if err != nil {
		return err
	}
	if !ours {
		return fmt.Errorf("%w: namespace %s is there and not this demo's, by its labels; delete it, or give it to the demo, "+
			"which deletes it with all that is in it: kubectl label ns %s %s", ErrForeign, namespace, namespace, Mark)
	}
	s.Screen.Print(fmt.Sprintf("The namespace %s is left from an earlier run; it is deleted first.", namespace))
	return s.Remove(ctx, namespace, within)
}

// Remove deletes a namespace, if it is the demo's, and waits until it is gone.
func (s Shell) Remove(ctx context.Context, namespace string, within time.Duration) error {
	return s.remove(ctx, namespace, within)
}

// Leave tells a namespace to go, if it is the demo's, and waits for nothing: Free does, where that is called.
func (s Shell) Leave(ctx context.Context, namespace string, within time.Duration) error {
	return s.remove(ctx, namespace, within, "--wait=false")
}

func (s Shell) remove(ctx context.Context, namespace string, within time.Duration, flags ...string) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	_, err := s.Runner.Run(ctx, append([]string{"kubectl", "delete", "ns", "-l", named(namespace) + "," + Mark},
		flags...)...)
	return err
}
