package status

import (
	"context"
	"encoding/json"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// FieldManager is the name under which the interceptor applies its fields of a status.
const FieldManager = "kedify-http-interceptor"

// apiClient is the Client of a real API server.
type apiClient struct {
	scaledObjects rest.Interface
	events        rest.Interface
}

// NewClient returns a Client. scaledObjects is a REST client of httpv1alpha1.SchemeGroupVersion, and events one of events.k8s.io/v1. It needs the permissions
// to patch httpscaledobjects/status and to create events.
func NewClient(scaledObjects, events rest.Interface) Client {
	return apiClient{scaledObjects, events}
}

// appliedObject is the part of an HTTPScaledObject that is applied. The UID makes the API server refuse a successor of the same name.
type appliedObject struct {
	APIVersion string                              `json:"apiVersion"`
	Kind       string                              `json:"kind"`
	Metadata   appliedMetadata                     `json:"metadata"`
	Status     httpv1alpha1.HTTPScaledObjectStatus `json:"status"`
}

type appliedMetadata struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
}

// ApplyStatus applies by server-side apply, taking over its fields from whoever had them.
func (c apiClient) ApplyStatus(ctx context.Context, object *httpv1alpha1.HTTPScaledObject, status httpv1alpha1.HTTPScaledObjectStatus) error {
	status.Conditions = ownConditions(status.Conditions)
	body, err := json.Marshal(appliedObject{
		APIVersion: httpv1alpha1.SchemeGroupVersion.String(),
		Kind:       httpv1alpha1.Kind,
		Metadata:   appliedMetadata{object.Namespace, object.Name, object.UID},
		Status:     status,
	})
	if err != nil {
		return fmt.Errorf("encode the status of HTTPScaledObject %s/%s: %w", object.Namespace, object.Name, err)
	}
	err = c.scaledObjects.Patch(types.ApplyPatchType).
		Namespace(object.Namespace).
		Resource(httpv1alpha1.Resource).
		Name(object.Name).
		SubResource("status").
		Param("fieldManager", FieldManager).
		Param("force", "true").
		Body(body).
		Do(ctx).
		Error()
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	return err
}

// CreateEvent creates event through events.k8s.io.
func (c apiClient) CreateEvent(ctx context.Context, event *eventsv1.Event) error {
	err := c.events.Post().Namespace(event.Namespace).Resource("events").Body(event).Do(ctx).Error()
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// ownConditions leaves out the conditions of other writers: to apply a field is to own it.
func ownConditions(conditions []metav1.Condition) []metav1.Condition {
	var own []metav1.Condition
	for _, condition := range conditions {
		if condition.Type == httpv1alpha1.ConditionAccepted || condition.Type == httpv1alpha1.ConditionReady {
			own = append(own, condition)
		}
	}
	return own
}

// leases are the Leases of a real API server.
type leases struct{ client rest.Interface }

// NewLeases returns Leases. client is a REST client of coordination.k8s.io/v1.
func NewLeases(client rest.Interface) Leases { return leases{client} }

// Get is Leases'.
func (l leases) Get(ctx context.Context, namespace, name string) (*coordinationv1.Lease, error) {
	lease := new(coordinationv1.Lease)
	return lease, l.client.Get().Namespace(namespace).Resource("leases").Name(name).Do(ctx).Into(lease)
}

// Create is Leases'.
func (l leases) Create(ctx context.Context, lease *coordinationv1.Lease) error {
	return l.client.Post().Namespace(lease.Namespace).Resource("leases").Body(lease).Do(ctx).Error()
}

// Update is Leases'.
func (l leases) Update(ctx context.Context, lease *coordinationv1.Lease) error {
	return l.client.Put().Namespace(lease.Namespace).Resource("leases").Name(lease.Name).Body(lease).Do(ctx).Error()
}
