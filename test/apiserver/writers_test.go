package apiserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
)

const (
	// writers is the number of writers of one object, in addition to the router.
	writers = 10
	// writesPerWriter is the number of writes of each writer per weight of the router. With a number instead of a rate
	// the test works on a slow machine.
	writesPerWriter = 2
	// weightsSet is the number of weights that the router sets in parallel.
	weightsSet = 20
)

// writer is a client that counts its writes in its own annotation.
type writer struct {
	name   string
	whole  bool // updates the whole object instead of a patch
	writes int
}

// TestTenWritersOnOneObject has ten writers write one object in parallel, half of them by update and half of them by
// patch. No write is lost. The router sets each weight by one patch, and changes only its own two annotations.
func TestTenWritersOnOneObject(t *testing.T) {
	t.Parallel()
	const namespace, name = "writers", "shop"
	shared.newNamespace(t, namespace)
	if refused := shared.create(t, namespace, name, bare); refused != "" {
		t.Fatal(refused)
	}
	before := shared.object(t, namespace, name)
	asked, canary := shared.startPlugin(t, apiserver.RolloutsToken), rollout(namespace, name)

	all := make([]*writer, writers)
	for i := range all {
		all[i] = &writer{name: fmt.Sprintf("example.com/writer-%d", i), whole: i%2 == 0}
	}
	for weight := int32(1); weight <= weightsSet; weight++ {
		var group errgroup.Group
		for _, w := range all {
			group.Go(func() error { return w.run(t.Context(), pathOf(namespace, name)) })
		}
		must(t, fmt.Sprintf("SetWeight(%d)", weight), asked.SetWeight(canary, weight, nil))
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		want := split.Format([]split.Backend{
			{Service: "shop-stable", Weight: uint32(100 - weight)},
			{Service: "shop-canary", Weight: uint32(weight)},
		})
		if got := shared.object(t, namespace, name).Annotations[httpv1alpha1.AnnotationWeightedBackends]; got != want {
			t.Fatalf("after SetWeight(%d) the annotation is %q", weight, got)
		}
	}
	checkWritten(t, before, shared.object(t, namespace, name), all)
	checkPatches(t, namespace)
}

// run makes writesPerWriter writes.
func (w *writer) run(ctx context.Context, path string) error {
	for wanted := w.writes + writesPerWriter; w.writes < wanted; {
		if err := w.write(ctx, path); err != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return nil
}

// errLost is the error of a lost write.
var errLost = errors.New("a write was lost")

// write increments the count, by an update of the whole object or a patch of the annotation.
func (w *writer) write(ctx context.Context, path string) error {
	body, err := shared.admin.Get().AbsPath(path).DoRaw(ctx)
	if err != nil {
		return err
	}
	var object map[string]any
	var known metav1.PartialObjectMetadata
	if err := errors.Join(json.Unmarshal(body, &object), json.Unmarshal(body, &known)); err != nil {
		return err
	}
	if got := known.Annotations[w.name]; w.writes > 0 && got != strconv.Itoa(w.writes) {
		return fmt.Errorf("%w: the count is %q, after %d writes", errLost, got, w.writes)
	}
	next := strconv.Itoa(w.writes + 1)
	if w.whole {
		annotations := known.Annotations
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[w.name] = next
		object["metadata"].(map[string]any)["annotations"] = annotations
		if body, err = json.Marshal(object); err != nil {
			return err
		}
		err = shared.admin.Put().AbsPath(path).SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
	} else {
		err = patch(ctx, shared.admin, path, fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}}`, w.name, next))
	}
	if err == nil {
		w.writes++
	}
	return err
}

// checkWritten compares the object with all writes.
func checkWritten(t *testing.T, before, after *httpv1alpha1.HTTPScaledObject, all []*writer) {
	t.Helper()
	want := map[string]string{
		httpv1alpha1.AnnotationWeightedBackends: split.Format([]split.Backend{
			{Service: "shop-stable", Weight: 100 - weightsSet}, {Service: "shop-canary", Weight: weightsSet},
		}),
		httpv1alpha1.AnnotationWeightedBackendsOwner: "writers/shop uid-of-shop",
	}
	for _, w := range all {
		want[w.name] = strconv.Itoa(w.writes)
	}
	if diff := cmp.Diff(want, after.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before.Spec, after.Spec); diff != "" {
		t.Errorf("the spec changed (-before +after):\n%s", diff)
	}
	var owned []string
	for _, entry := range after.ManagedFields {
		if entry.Manager == httpso.FieldManager {
			owned = append(owned, string(entry.Operation)+" "+entry.Subresource+string(entry.FieldsV1.Raw))
		}
	}
	fields := `Update {"f:metadata":{"f:annotations":{"f:http.kedify.io/weighted-backends":{},"f:http.kedify.io/weighted-backends-owner":{}}}}`
	if len(owned) == 1 {
		// the map itself, if the router wrote the first annotation
		owned[0] = strings.Replace(owned[0], `"f:annotations":{".":{},`, `"f:annotations":{`, 1)
	}
	if diff := cmp.Diff([]string{fields}, owned); diff != "" {
		t.Errorf("fields that the router owns (-want +got):\n%s", diff)
	}
}

// checkPatches checks that writes of other clients caused no conflict for the router.
func checkPatches(t *testing.T, namespace string) {
	t.Helper()
	codes := map[int]int{}
	for _, event := range shared.requests(t, rolloutsAccount) {
		if event.ObjectRef.Namespace == namespace && event.Verb == "patch" {
			codes[event.ResponseStatus.Code]++
		}
	}
	// The router's patch tests its own annotations and whether there are annotations at all: another client may write
	// the first one.
	if codes[http.StatusOK] != weightsSet || codes[http.StatusUnprocessableEntity] > 1 ||
		codes[http.StatusConflict] > 0 {
		t.Errorf("patches by status code: %v, want %d times 200 and at most one 422", codes, weightsSet)
	}
}
