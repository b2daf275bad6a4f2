package status

import (
	"context"
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

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

// errWatchEnded says that the API server ended a watch before anything happened.
var errWatchEnded = errors.New("the watch ended")

// Released is Leases'. It watches, with a field selector, so that a role can name the one Lease.
func (l leases) Released(ctx context.Context, namespace, name, version string) error {
	watching, err := l.client.Get().Namespace(namespace).Resource("leases").Param("watch", "true").
		Param("fieldSelector", "metadata.name="+name).Param("resourceVersion", version).Watch(ctx)
	if err != nil {
		return fmt.Errorf("watch Lease %s/%s: %w", namespace, name, err)
	}
	defer watching.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case event, isOpen := <-watching.ResultChan():
			lease, isLease := event.Object.(*coordinationv1.Lease)
			switch {
			case !isOpen:
				return fmt.Errorf("watch Lease %s/%s: %w", namespace, name, errWatchEnded)
			case event.Type == watch.Error:
				return fmt.Errorf("watch Lease %s/%s: %w", namespace, name, apierrors.FromObject(event.Object))
			case isLease && (event.Type == watch.Deleted || holderOf(lease) == ""):
				return nil
			}
		}
	}
}
