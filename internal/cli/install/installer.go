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
	// requestLimit bounds one request with its repetitions.
	requestLimit = 10 * time.Second
	// pause is between two looks at what is waited for.
	pause = 500 * time.Millisecond
)

// Installer changes a cluster.
type Installer struct {
	client *kube.Client
	say    func(line string)
	tries  bool
}

// New returns an Installer that asks client and says each step in a line. With tries the API server judges every write
// and stores none, and nothing is waited for.
func New(client *kube.Client, say func(line string), tries bool) *Installer {
	return &Installer{client: client, say: say, tries: tries}
}

// sayf says a step.
func (i *Installer) sayf(format string, args ...any) { i.say(fmt.Sprintf(format, args...)) }

// find reads an object into target, and says whether there is one.
func (i *Installer) find(ctx context.Context, target any, path ...string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	err := kube.Retry(ctx, func(ctx context.Context) error { return i.client.Get(ctx, target, path...) })
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// list lists a collection by labels. A collection that the API server does not serve is empty.
func list[T any](ctx context.Context, i *Installer, labels string, path ...string) ([]T, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	var found struct {
		Items []T `json:"items"`
	}
	asked := kube.Request{Path: path}
	if labels != "" {
		asked.Query = map[string]string{"labelSelector": labels}
	}
	err := kube.Retry(ctx, func(ctx context.Context) error {
		body, err := i.client.Do(ctx, asked)
		if err != nil {
			return err
		}
		return json.Unmarshal(body, &found)
	})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return found.Items, err
}

// write sends a request that changes something, and reads the object that comes of it.
func (i *Installer) write(ctx context.Context, asked kube.Request, object any) (metav1.ObjectMeta, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	var answer struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	body, err := json.Marshal(object)
	if err != nil {
		return answer.Metadata, err
	}
	if asked.Query == nil {
		asked.Query = map[string]string{}
	}
	asked.Body, asked.Query["fieldManager"] = body, manifests.ManagedBy
	if i.tries {
		asked.Query["dryRun"] = metav1.DryRunAll
	}
	text, err := i.client.Do(ctx, asked)
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	return answer.Metadata, err
}

// apply makes an object what it is to be, by server-side apply; with force also what others have written of it.
func (i *Installer) apply(ctx context.Context, object manifests.Object, force bool) (metav1.ObjectMeta, error) {
	applied, err := i.write(ctx, kube.Request{
		Verb: http.MethodPatch, Path: object.Path(), ContentType: string(types.ApplyPatchType), Query: map[string]string{"force": strconv.FormatBool(force)},
	}, object.Content)
	if err != nil {
		return applied, fmt.Errorf("%s: %w", object.Reference, err)
	}
	return applied, nil
}

// remove deletes an object, if it is there. Its dependents go, too.
func (i *Installer) remove(ctx context.Context, of manifests.Reference) error {
	background := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{PropagationPolicy: &background}
	if i.tries {
		options.DryRun = []string{metav1.DryRunAll}
	}
	body, err := json.Marshal(options)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	_, err = i.client.Do(ctx, kube.Request{Verb: http.MethodDelete, Path: of.Path(), Body: body})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", of, err)
	}
	i.report(of, "deleted")
	return nil
}

// report prints what was done with an object, in the words of kubectl.
func (i *Installer) report(object fmt.Stringer, result string) {
	if i.tries {
		result += " (server dry run)"
	}
	i.sayf("%s %s", object, result)
}

// await looks again and again until something is done, and says each state that is new. A look that fails for a reason
// that passes is repeated. It fails when ctx ends first, with the last state.
func (i *Installer) await(ctx context.Context, what string, look func(context.Context) (state string, done bool, err error)) error {
	if i.tries {
		return nil
	}
	last := ""
	for {
		state, done, err := look(ctx)
		switch {
		case err != nil && !kube.IsTransient(err):
			return fmt.Errorf("%s: %w", what, err)
		case err == nil && done:
			if last != "" {
				i.sayf("%s: %s", what, state)
			}
			return nil
		case err == nil && state != last:
			last = state
			i.sayf("%s: %s", what, state)
		}
		if !kube.Sleep(ctx, pause) {
			return fmt.Errorf("%s: %w: %s", what, errors.Join(errTooLong, ctx.Err()), last)
		}
	}
}

// errTooLong says that something was waited for in vain.
var errTooLong = errors.New("timed out; run the command again to continue")
