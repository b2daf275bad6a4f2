package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/install/manifests"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

const (
	// requestTimeout bounds one request including its retries.
	requestTimeout = 10 * time.Second
	// pollInterval is the interval between checks while waiting.
	pollInterval = 500 * time.Millisecond
)

// Installer changes a cluster.
type Installer struct {
	client    *kube.Client
	printLine func(line string)
	dryRun    bool
}

// New returns an Installer that prints a line for each step. With dryRun, the API server validates every write without
// persisting it, and nothing is awaited.
func New(client *kube.Client, printLine func(line string), dryRun bool) *Installer {
	return &Installer{client: client, printLine: printLine, dryRun: dryRun}
}

// printf prints a line.
func (i *Installer) printf(format string, args ...any) { i.printLine(fmt.Sprintf(format, args...)) }

// find reads an object into target, and reports whether it exists.
func (i *Installer) find(ctx context.Context, target any, path ...string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := kube.Retry(ctx, func(ctx context.Context) error { return i.client.Get(ctx, target, path...) })
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// list lists a collection by labels. If the API server does not serve the collection, the result is empty.
func list[T any](ctx context.Context, i *Installer, labels string, path ...string) ([]T, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var response struct {
		Items []T `json:"items"`
	}
	request := kube.Request{Path: path}
	if labels != "" {
		request.Query = map[string]string{"labelSelector": labels}
	}
	err := kube.Retry(ctx, func(ctx context.Context) error {
		body, err := i.client.Do(ctx, request)
		if err != nil {
			return err
		}
		return json.Unmarshal(body, &response)
	})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return response.Items, err
}

// write sends a write request and returns the metadata of the resulting object.
func (i *Installer) write(ctx context.Context, request kube.Request, object any) (metav1.ObjectMeta, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var response struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	body, err := json.Marshal(object)
	if err != nil {
		return response.Metadata, err
	}
	if request.Query == nil {
		request.Query = map[string]string{}
	}
	request.Body, request.Query["fieldManager"] = body, manifests.ManagedBy
	if i.dryRun {
		request.Query["dryRun"] = metav1.DryRunAll
	}
	text, err := i.client.Do(ctx, request)
	if err == nil {
		err = json.Unmarshal(text, &response)
	}
	return response.Metadata, err
}

// apply creates or updates an object with server-side apply. With force, it takes over fields of other field managers.
func (i *Installer) apply(ctx context.Context, object manifests.Object, force bool) (metav1.ObjectMeta, error) {
	applied, err := i.write(ctx, kube.Request{
		Verb: http.MethodPatch, Path: object.Path(), ContentType: string(types.ApplyPatchType),
		Query: map[string]string{"force": strconv.FormatBool(force)},
	}, object.Content)
	if err != nil {
		return applied, fmt.Errorf("%s: %w", object.Reference, err)
	}
	return applied, nil
}

// remove deletes an object, and its dependents in the background. A missing object is not an error.
func (i *Installer) remove(ctx context.Context, reference manifests.Reference) error {
	background := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{PropagationPolicy: &background}
	if i.dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	body, err := json.Marshal(options)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err = i.client.Do(ctx, kube.Request{Verb: http.MethodDelete, Path: reference.Path(), Body: body})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", reference, err)
	}
	i.report(reference, "deleted")
	return nil
}

// report prints what was done with an object, in the words of kubectl.
func (i *Installer) report(object fmt.Stringer, result string) {
	if i.dryRun {
		result += " (server dry run)"
	}
	i.printf("%s %s", object, result)
}

// waitFor polls until check reports done, and prints each new state. It retries transient errors. If ctx ends first, it
// fails with the last state.
func (i *Installer) waitFor(ctx context.Context, subject string,
	check func(context.Context) (state string, done bool, err error),
) error {
	if i.dryRun {
		return nil
	}
	last := ""
	for {
		state, done, err := check(ctx)
		switch {
		case err != nil && !kube.IsTransient(err):
			return fmt.Errorf("%s: %w", subject, err)
		case err == nil && done:
			if last != "" {
				i.printf("%s: %s", subject, state)
			}
			return nil
		case err == nil && state != last:
			last = state
			i.printf("%s: %s", subject, state)
		}
		if !kube.Sleep(ctx, pollInterval) {
			return fmt.Errorf("%s: %w: %s", subject, errors.Join(errTimeout, ctx.Err()), last)
		}
	}
}

// errTimeout reports a wait that has timed out.
var errTimeout = errors.New("timed out; run the command again to continue")
