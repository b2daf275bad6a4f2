package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

const (
	// definitionPause is the shortest time between two looks at the installed definition.
	definitionPause = time.Second
	// definitionAge is the time after which a definition that lacks something is looked at again.
	definitionAge = time.Minute
)

// definition is what the API server says of the installed CustomResourceDefinition. It is asked
// only when a status was refused: server-side apply refuses a whole object for one field that
// the schema lacks, where other writes have it pruned in silence. The schema itself is asked in
// place of the refusal's words; every authenticated user may read it (ClusterRole
// system:discovery).
type definition struct {
	client rest.Interface
	logger *slog.Logger
	asking sync.Mutex // held while the definition is looked at

	mu      sync.Mutex // not held during a request
	status  *structure // of the status; nil while nothing is known, when there is a place for everything
	readAt  time.Time
	missing map[string]struct{} // the fields that were found to have no place, and were told
}

// structure is the part of a schema (OpenAPI 3.0) that says which fields there are.
type structure struct {
	Properties      map[string]structure `json:"properties"`
	Items           *structure           `json:"items"`
	PreserveUnknown bool                 `json:"x-kubernetes-preserve-unknown-fields"`
	// Kinds are what a schema is that of; empty inside one.
	Kinds []schema.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
}

// declares says whether there is a place for every field of value, which was decoded from JSON.
func (s structure) declares(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			if property, is := s.Properties[name]; !s.PreserveUnknown && (!is || !property.declares(field)) {
				return false
			}
		}
	case []any:
		for _, element := range value {
			if !s.PreserveUnknown && (s.Items == nil || !s.Items.declares(element)) {
				return false
			}
		}
	}
	return true
}

// divide tells the fields that the status has a place for from the others. A definition that lacked
// something is looked at again when that is long ago, by one caller: the others go by what is known.
func (d *definition) divide(ctx context.Context, all map[string]any) (inStatus, annotated map[string]any) {
	d.mu.Lock()
	isOld := len(d.missing) > 0 && time.Since(d.readAt) >= definitionAge
	d.mu.Unlock()
	if isOld && d.asking.TryLock() {
		d.refresh(ctx)
		d.asking.Unlock()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	inStatus, annotated = map[string]any{}, map[string]any{}
	for name, value := range all {
		if d.status == nil || d.status.declares(map[string]any{name: value}) {
			inStatus[name] = value
		} else {
			annotated[name] = value
			d.tell(ctx, name)
		}
	}
	return inStatus, annotated
}

// tell logs that a field has no place, once for each. The caller holds the lock.
func (d *definition) tell(ctx context.Context, field string) {
	if _, isTold := d.missing[field]; isTold {
		return
	}
	d.missing[field] = struct{}{}
	d.logger.WarnContext(ctx,
		"the CustomResourceDefinition has no place for a field of the status: it goes into an annotation",
		"definition", httpv1alpha1.Resource+"."+httpv1alpha1.Group, "field", "status."+field,
		"annotation", httpv1alpha1.AnnotationStatus,
		"remedy", "install ours: kubectl apply --server-side --force-conflicts -f config/crd")
}

// read looks at the installed definition, after whoever does, and says whether it is known.
func (d *definition) read(ctx context.Context) bool {
	d.asking.Lock()
	defer d.asking.Unlock()
	return d.refresh(ctx)
}

// refresh is read for the one who is asking. It looks once per definitionPause; who comes in between
// is told what was found then.
func (d *definition) refresh(ctx context.Context) bool {
	d.mu.Lock()
	readAt, isKnown := d.readAt, d.status != nil
	d.mu.Unlock()
	if time.Since(readAt) < definitionPause {
		return isKnown
	}
	found, err := d.ask(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.readAt = time.Now()
	if err != nil {
		d.logger.WarnContext(ctx, "cannot read the schema of HTTPScaledObjects", "error", err)
		return false
	}
	if !reflect.DeepEqual(found, d.status) {
		d.status, d.missing = found, map[string]struct{}{}
	}
	return found != nil
}

// ask returns the schema of the status, nil where the API server publishes none.
func (d *definition) ask(ctx context.Context) (*structure, error) {
	path := []string{"/openapi/v3/apis", httpv1alpha1.Group, httpv1alpha1.Version}
	text, err := d.client.Get().AbsPath(path...).DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	var document struct {
		Components struct {
			Schemas map[string]structure `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("decode the schema: %w", err)
	}
	kind := httpv1alpha1.SchemeGroupVersion.WithKind(httpv1alpha1.Kind)
	for _, of := range document.Components.Schemas {
		if status, is := of.Properties["status"]; is && slices.Contains(of.Kinds, kind) {
			return &status, nil
		}
	}
	return nil, nil //nolint:nilnil // nothing is known, which is no failure
}

// mayBeUndeclared says whether a write may have been refused for a field that the schema lacks.
// Kubernetes answers that with an internal error.
func mayBeUndeclared(err error) bool {
	isRefused := apierrors.IsInternalError(err) || apierrors.IsBadRequest(err) || apierrors.IsInvalid(err)
	return isRefused && !errors.Is(err, ErrGone)
}
