package try

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/install/manifests"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

const (
	// requestTimeout bounds one request including its retries, pollInterval is the interval between checks while
	// waiting.
	requestTimeout, pollInterval = 10 * time.Second, 300 * time.Millisecond
	// propagationDelay is the delay between the acknowledgment of weights and the first measured request: Envoy's
	// workers apply them one by one.
	propagationDelay = 500 * time.Millisecond
	// deletionTimeout bounds the deletion of the namespace.
	deletionTimeout = 2 * time.Minute
)

// ErrLoadEnded reports that the load generator has terminated.
var ErrLoadEnded = errors.New("the load generator has stopped")

// Result is the result of a trial.
type Result struct {
	// Namespace is the namespace of the trial, Removed is true if it was deleted.
	Namespace string `json:"namespace"`
	Removed   bool   `json:"removed"`
	// Router and Weight (in percent) are those of the setup.
	Router string `json:"router"`
	Weight int    `json:"weight"`
	// Canary is the number of Measured requests at the step that went to the canary; Agrees is true if it matches the
	// weight.
	Canary   int  `json:"canary"`
	Measured int  `json:"measured"`
	Agrees   bool `json:"agrees"`
	// End is "promoted" or "aborted"; EndAgrees is true if all requests went to one version afterwards.
	End       string `json:"end,omitempty"`
	EndAgrees bool   `json:"endAgrees"`
	// Requests is the number of requests after the first successful ones, Failed the number of those without a
	// successful response, and Failures counts them by error.
	Requests int            `json:"requests"`
	Failed   int            `json:"failed"`
	Failures map[string]int `json:"failures,omitempty"`
	// Seconds is the duration of the trial, including the deletion.
	Seconds float64 `json:"seconds"`
}

// Passed reports whether the canary worked, no request failed, and everything was removed.
func (r *Result) Passed() bool { return r.Agrees && r.EndAgrees && r.Failed == 0 && r.Removed }

// Trial runs one canary.
type Trial struct {
	client    *kube.Client
	setup     Setup
	files     fs.FS
	printLine func(line string)
	token     string // a label of the namespace that identifies this trial
	tally     Tally
	loadEnded chan error // receives when the load generator has terminated
}

// New returns a Trial that prints a line for each step. files is folder config, which contains the manifests of the
// proxies.
func New(client *kube.Client, setup Setup, files fs.FS, printLine func(line string)) *Trial {
	return &Trial{
		client: client, setup: setup, files: files, printLine: printLine, token: rand.Text(),
		loadEnded: make(chan error, 1),
	}
}

// Run runs the canary and deletes everything that it has created, even if ctx ends. It fails if the canary could not be
// completed or deleted; the Result contains what went wrong in a completed canary.
func (t *Trial) Run(ctx context.Context) (Result, error) {
	started := time.Now()
	result := Result{Namespace: t.setup.Namespace, Router: t.setup.Router, Weight: t.setup.Weight}
	runCtx, stop := context.WithCancel(ctx)
	err := t.runCanary(runCtx, &result)
	// The error of a canceled request does not contain the cause.
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("the canary was not completed: %w", cause)
	}
	stop()
	result.Requests, result.Failures = t.tally.Totals()
	for _, count := range result.Failures {
		result.Failed += count
	}
	removal := t.remove(context.WithoutCancel(ctx))
	result.Removed, result.Seconds = removal == nil, time.Since(started).Seconds()
	return result, errors.Join(err, removal)
}

// runCanary runs the steps of the trial.
func (t *Trial) runCanary(ctx context.Context, result *Result) error {
	if err := t.deploy(ctx); err != nil {
		return err
	}
	if err := t.startLoad(ctx); err != nil {
		return err
	}
	t.printf("Canary: %s to %s, setWeight %d", stableColor, canaryColor, t.setup.Weight)
	color := `[{"op": "replace", "path": "/spec/template/spec/containers/0/args", "value": ["--color=` + canaryColor +
		`"]}]`
	if err := t.write(ctx, http.MethodPatch, types.JSONPatchType, []byte(color), t.rolloutPath()...); err != nil {
		return err
	}
	if err := t.waitFor(ctx, "the canary step", t.checkStep); err != nil {
		return err
	}
	var err error
	if result.Canary, result.Measured, err = t.measure(ctx, canaryColor, t.setup.Requests); err != nil {
		return err
	}
	result.Agrees = Agrees(result.Canary, result.Measured, t.setup.Weight)
	t.printf("Weight %d %%, measured %.1f %%: %d of %d requests", t.setup.Weight,
		100*float64(result.Canary)/float64(result.Measured), result.Canary, result.Measured)
	return t.finish(ctx, result)
}

// finish promotes or aborts the canary, and measures the traffic split afterwards.
func (t *Trial) finish(ctx context.Context, result *Result) error {
	change, color := `{"status": {"pauseConditions": null}}`, canaryColor
	result.End = "promoted"
	if t.setup.Abort {
		change, color = `{"status": {"abort": true}}`, stableColor
		result.End = "aborted"
	}
	if err := t.write(ctx, http.MethodPatch, types.MergePatchType, []byte(change),
		append(t.rolloutPath(), "status")...); err != nil {
		return err
	}
	if err := t.waitFor(ctx, "the end of the canary", t.checkEnd); err != nil {
		return err
	}
	hits, total, err := t.measure(ctx, color, max(1, t.setup.Requests/5))
	if err != nil {
		return err
	}
	result.EndAgrees = hits == total
	t.printf("Canary %s: %d of %d requests went to %s", result.End, hits, total, color)
	return nil
}

// deploy creates the namespace with the application, and waits until it can receive requests.
func (t *Trial) deploy(ctx context.Context) error {
	objects, err := t.setup.Objects(t.files)
	if err != nil {
		return err
	}
	// An interrupt does not cancel this request: otherwise it would be unknown whether the namespace exists.
	createCtx := context.WithoutCancel(ctx)
	namespace := map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{
			"name":        t.setup.Namespace,
			"labels":      map[string]any{manifests.LabelManagedBy: manifests.ManagedBy, facts.TrialLabel: t.token},
			"annotations": deadlineAnnotation(ctx),
		},
	}
	body, err := json.Marshal(namespace)
	if err != nil {
		return err
	}
	if err := t.write(createCtx, http.MethodPost, "", body, "api", "v1", "namespaces"); err != nil {
		return fmt.Errorf("namespace %s: %w", t.setup.Namespace, err)
	}
	t.printf("Namespace %s created", t.setup.Namespace)
	for _, object := range objects {
		if err := t.apply(ctx, object); err != nil {
			return err
		}
	}
	if err := t.waitFor(ctx, "the application", t.checkHealthy); err != nil {
		return err
	}
	return t.waitFor(ctx, "the route", t.checkRouted)
}

// deadlineAnnotation returns the annotation with the deadline of the trial and its cleanup. It is nil if ctx has no
// deadline. A namespace that exists after that time was left by a killed command.
func deadlineAnnotation(ctx context.Context) map[string]any {
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	return map[string]any{facts.TrialUntil: deadline.Add(deletionTimeout).UTC().Format(time.RFC3339)}
}

// startLoad starts the load generator, and waits for successful responses.
func (t *Trial) startLoad(ctx context.Context) error {
	pod, err := t.setup.LoadPod()
	if err != nil {
		return err
	}
	if err := t.apply(ctx, pod); err != nil {
		return err
	}
	if err := t.waitFor(ctx, "the load generator", t.checkLoad); err != nil {
		return err
	}
	go func() { t.loadEnded <- t.readLoad(ctx, pod.Path()) }()
	t.printf("Load: %d requests/s to %s", t.setup.Rate, t.setup.address())
	return t.waitFor(ctx, "successful responses", func(context.Context) (string, bool, error) {
		return "no successful response yet", t.tally.IsWarm(), nil
	})
}

// readLoad tallies the output of the load generator.
func (t *Trial) readLoad(ctx context.Context, pod []string) error {
	stream, err := t.client.Stream(ctx, kube.Request{
		Path:  append(pod, "log"),
		Query: map[string]string{"follow": "true"},
	})
	if err != nil {
		return err
	}
	defer stream.Close()
	if err := t.tally.Read(stream); err != nil {
		return err
	}
	return ErrLoadEnded
}

// measure waits for n requests that are due from now on, and returns how many of them were served by color.
func (t *Trial) measure(ctx context.Context, color string, n int) (hits, all int, err error) {
	from := time.Now().Add(propagationDelay).UnixMilli()
	err = t.waitFor(ctx, "requests", func(context.Context) (string, bool, error) {
		hits, all = t.tally.Count(from, color)
		return fmt.Sprintf("%d of %d received", all, n), all >= n, nil
	})
	return hits, all, err
}

// waitFor polls until check reports done. Its error contains the last state.
func (t *Trial) waitFor(ctx context.Context, subject string,
	check func(context.Context) (state string, done bool, err error),
) error {
	last := ""
	for {
		state, done, err := check(ctx)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("waiting for %s (%s): %w", subject, last, context.Cause(ctx))
		case done:
			return nil
		case err != nil && !kube.IsTransient(err):
			return fmt.Errorf("waiting for %s: %w", subject, err)
		case err == nil:
			last = state
		}
		select {
		case err := <-t.loadEnded:
			if ctx.Err() == nil {
				return fmt.Errorf("waiting for %s (%s): %w", subject, last, errors.Join(ErrLoadEnded, err))
			}
		case <-ctx.Done():
		case <-time.After(pollInterval):
		}
	}
}

// printf prints a line.
func (t *Trial) printf(format string, args ...any) { t.printLine(fmt.Sprintf(format, args...)) }

// rolloutPath returns the API path of the application's Rollout.
func (t *Trial) rolloutPath() []string {
	return []string{"apis", "argoproj.io", "v1alpha1", "namespaces", t.setup.Namespace, "rollouts", name}
}

// apply applies an object with server-side apply.
func (t *Trial) apply(ctx context.Context, object manifests.Object) error {
	body, err := json.Marshal(object.Content)
	if err != nil {
		return err
	}
	if err := t.write(ctx, http.MethodPatch, types.ApplyPatchType, body, object.Path()...); err != nil {
		return fmt.Errorf("%s: %w", object.Reference, err)
	}
	return nil
}

// write sends an idempotent write request.
func (t *Trial) write(ctx context.Context, verb string, kind types.PatchType, body []byte, path ...string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	query := map[string]string{}
	if verb != http.MethodDelete {
		query["fieldManager"] = manifests.ManagedBy
	}
	return kube.Retry(ctx, func(ctx context.Context) error {
		_, err := t.client.Do(ctx, kube.Request{
			Verb: verb, Path: path, ContentType: string(kind), Body: body, Query: query,
		})
		return err
	})
}

// remove deletes the namespace, and waits until it is gone.
func (t *Trial) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, deletionTimeout)
	defer cancel()
	namespace := []string{"api", "v1", "namespaces", t.setup.Namespace}
	t.printf("Deleting namespace %s", t.setup.Namespace)
	failure := func(err error) error {
		return fmt.Errorf("namespace %s was not deleted: run kubectl delete namespace %s: %w", t.setup.Namespace,
			t.setup.Namespace, err)
	}
	for isDeleting := false; ; {
		var live struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
		}
		err := t.get(ctx, &live, namespace...)
		switch {
		// A namespace of the same name with another token belongs to another user.
		case apierrors.IsNotFound(err), err == nil && live.Metadata.Labels[facts.TrialLabel] != t.token:
			t.printf("Namespace %s deleted", t.setup.Namespace)
			return nil
		case err == nil && !isDeleting:
			if err = t.delete(ctx, live.Metadata.UID, namespace); err == nil {
				isDeleting = true
				t.deletePods(ctx, namespace)
			}
		}
		if !kube.Sleep(ctx, pollInterval) {
			return failure(errors.Join(err, ctx.Err()))
		}
	}
}

// delete deletes the namespace if it has the UID.
func (t *Trial) delete(ctx context.Context, uid types.UID, namespace []string) error {
	body, err := json.Marshal(metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil {
		return err
	}
	return t.write(ctx, http.MethodDelete, "", body, namespace...)
}

// get reads the object at a path.
func (t *Trial) get(ctx context.Context, target any, path ...string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return t.client.Get(ctx, target, path...)
}

// deletePods terminates the Pods immediately, because they receive no more requests. It ignores errors: then the Pods
// use their grace period.
func (t *Trial) deletePods(ctx context.Context, namespace []string) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, _ = t.client.Do(ctx, kube.Request{
		Verb: http.MethodDelete, Path: append(namespace, "pods"), Query: map[string]string{"gracePeriodSeconds": "1"},
	})
}
