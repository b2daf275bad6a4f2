package shell

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrForeign means that an object with the demo's name belongs to another owner.
var ErrForeign = errors.New("not touched")

// Mark is the label of the demo's own namespaces, in e2e/demo.
const Mark = "app.kubernetes.io/managed-by=kedify-canary-demo"

// named returns the selector of a namespace by its name.
func named(namespace string) string { return "kubernetes.io/metadata.name=" + namespace }

// Free deletes a namespace from an earlier run and waits until it is gone. A namespace of that name without the demo's
// label belongs to the user.
func (s Shell) Free(ctx context.Context, namespace string, within time.Duration) error {
	there := func(selector string) (bool, error) {
		out, err := s.Run(ctx, "kubectl", "get", "ns", "-l", selector, "-o", "name")
		return strings.TrimSpace(out) != "", err
	}
	exists, err := there(named(namespace))
	if err != nil || !exists {
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

// Remove deletes a namespace if it is the demo's, and waits until it is gone.
func (s Shell) Remove(ctx context.Context, namespace string, within time.Duration) error {
	return s.remove(ctx, namespace, within)
}

// Leave requests the deletion of a namespace if it is the demo's, and does not wait. Free waits for it later.
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
