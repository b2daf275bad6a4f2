// Package election elects the interceptor replica that writes statuses.
package election

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	watchtools "k8s.io/client-go/tools/watch"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/lease"
)

const (
	// renewDeadline is how long the leader tries to renew the Lease before it stops writing. It is shorter than
	// httpv1alpha1.LeaseFreshness, after which another replica takes the Lease.
	renewDeadline = 10 * time.Second
	// releaseDeadline bounds the request that releases the Lease at shutdown.
	releaseDeadline = 2 * time.Second
)

var (
	// errIdentity is the error of an Elector without an Identity.
	errIdentity = errors.New("the replica has no name: set --pod-name")
	// errHeld is the error of an attempt to take a Lease that another replica holds.
	errHeld = errors.New("another replica holds the Lease")
)

// Elector elects one of several replicas by the Lease httpv1alpha1.DefaultInterceptorLease. The leader renews the Lease
// every httpv1alpha1.LeaseRenewInterval, which shows the routers that a replica keeps the statuses up to date. The
// Lease of a replica that was killed is free after httpv1alpha1.LeaseFreshness. A replica that shuts down releases the
// Lease, and the other replicas watch for that.
//
// Package lease holds the rules. The library k8s.io/client-go/tools/leaderelection isn't used, because it links the
// types of every API group and doesn't watch.
type Elector struct {
	// Client is a REST client of coordination.k8s.io/v1. It needs the permissions to get, watch, create and update the
	// Lease.
	Client rest.Interface
	// Namespace is the namespace of the Lease.
	Namespace string
	// Identity is the unique name of this replica, such as the name of its Pod.
	Identity string
	// Logger receives the results of elections.
	Logger *slog.Logger
}

// Run takes part in elections until ctx ends. While this replica is the leader, Run calls lead. The context of lead
// ends when the Lease is lost, and Run waits for lead to return before it takes part again. An error is an invalid
// configuration: Run retries while the API server is unavailable.
func (e Elector) Run(ctx context.Context, lead func(ctx context.Context)) error {
	if e.Identity == "" {
		return fmt.Errorf("election by Lease %s/%s: %w", e.Namespace, httpv1alpha1.DefaultInterceptorLease, errIdentity)
	}
	c := &candidate{Elector: e}
	for ctx.Err() == nil {
		switch err := c.tryAcquireOrRenew(ctx); {
		case err == nil:
			c.lead(ctx, lead)
		case errors.Is(err, errHeld):
			c.standby(ctx)
		default:
			kube.Sleep(ctx, retryPause())
		}
	}
	return nil
}

// candidate is an Elector with the state of the Lease as this replica last read it.
type candidate struct {
	Elector

	version     string            // the resource version of the Lease, "" if there is none
	observation lease.Observation // when the Lease was seen to change
	loggedID    string            // the holder that was logged last
	warned      bool              // whether the missing permission to watch was logged
	renewedAt   time.Time         // when the last successful attempt began
}

// standby waits until the next attempt to take the Lease is due or the holder releases it.
func (c *candidate) standby(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, retryPause())
	defer cancel()
	err := c.awaitRelease(ctx)
	if err == nil {
		return
	}
	if apierrors.IsForbidden(err) && !c.warned {
		c.warned = true
		c.Logger.WarnContext(ctx, "cannot watch the Lease; polling it instead",
			"fix", "allow the ServiceAccount to watch it: apply config/interceptor/rbac.yaml", "error", err)
	}
	<-ctx.Done()
}

// awaitRelease returns nil as soon as the Lease is deleted or no replica holds it, in a version after the last one read. An
// error means that the watch failed or ctx ended. The watch uses a field selector, so that a Role can restrict it to
// this Lease by name.
func (c *candidate) awaitRelease(ctx context.Context) error {
	stream, err := c.Client.Get().Namespace(c.Namespace).Resource("leases").Param("watch", "true").
		Param("fieldSelector", "metadata.name="+httpv1alpha1.DefaultInterceptorLease).Param("resourceVersion",
		c.version).Watch(ctx)
	if err != nil {
		return err
	}
	_, err = watchtools.UntilWithoutRetry(ctx, stream, func(event watch.Event) (isReleased bool, err error) {
		if event.Type == watch.Error {
			return false, apierrors.FromObject(event.Object)
		}
		current, isLease := event.Object.(*coordinationv1.Lease)
		return isLease && (event.Type == watch.Deleted || !lease.IsHeld(current)), nil
	})
	return err
}

// get reads the Lease. If it doesn't exist, get returns one that isn't stored yet.
func (c *candidate) get(ctx context.Context) (*coordinationv1.Lease, error) {
	current := new(coordinationv1.Lease)
	err := c.Client.Get().Namespace(c.Namespace).Resource("leases").Name(httpv1alpha1.DefaultInterceptorLease).
		Do(ctx).Into(current)
	if apierrors.IsNotFound(err) {
		name := metav1.ObjectMeta{Namespace: c.Namespace, Name: httpv1alpha1.DefaultInterceptorLease}
		return &coordinationv1.Lease{ObjectMeta: name}, nil
	}
	return current, err
}

// put stores the Lease. The API server rejects it with a conflict if the Lease was changed since get.
func (c *candidate) put(ctx context.Context, current *coordinationv1.Lease) error {
	request := c.Client.Post()
	if current.ResourceVersion != "" {
		request = c.Client.Put().Name(current.Name)
	}
	return request.Namespace(c.Namespace).Resource("leases").Body(current).Do(ctx).Error()
}

// tryAcquireOrRenew takes or renews the Lease, and repeats that once after a conflict with another writer. The error is
// errHeld if another replica holds the Lease.
func (c *candidate) tryAcquireOrRenew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, renewDeadline)
	defer cancel()
	err := c.attempt(ctx)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		err = c.attempt(ctx)
	}
	if err != nil && !errors.Is(err, errHeld) && ctx.Err() == nil {
		c.Logger.WarnContext(ctx, "cannot take or renew the Lease; trying again", "identity", c.Identity, "error", err)
	}
	return err
}

// attempt reads the Lease once and writes it if this replica can take or renew it.
func (c *candidate) attempt(ctx context.Context) error {
	began := time.Now()
	current, err := c.get(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	if !c.isAvailable(ctx, current, now) {
		return errHeld
	}
	lease.Claim(current, c.Identity, httpv1alpha1.LeaseFreshness, now)
	if err := c.put(ctx, current); err != nil {
		return err
	}
	c.renewedAt = began
	return nil
}

// isAvailable reports whether this replica holds the Lease, no replica holds it, or its holder didn't renew it for the
// duration in it.
func (c *candidate) isAvailable(ctx context.Context, current *coordinationv1.Lease, now time.Time) bool {
	c.version = current.ResourceVersion
	c.observation.Record(current, now)
	holder := lease.Holder(current)
	if holder == c.Identity || !lease.IsHeld(current) {
		return true
	}
	if holder != c.loggedID {
		c.loggedID = holder
		c.Logger.InfoContext(ctx, "another replica writes statuses", "identity", holder)
	}
	return !c.observation.IsFresh(lease.Duration(current, httpv1alpha1.LeaseFreshness), now)
}

// lead calls lead while this replica holds the Lease, and releases the Lease after ctx has ended.
func (c *candidate) lead(ctx context.Context, lead func(ctx context.Context)) {
	c.loggedID = c.Identity
	c.Logger.InfoContext(ctx, "elected to write statuses", "identity", c.Identity)
	leadership, end := context.WithCancel(ctx)
	var leading sync.WaitGroup
	leading.Go(func() { lead(leadership) })
	c.renew(ctx)
	end()
	leading.Wait()
	if ctx.Err() != nil {
		c.release(context.WithoutCancel(ctx))
	}
}

// renew renews the Lease until another replica holds it, no attempt succeeded for renewDeadline, or ctx ends. The
// deadline counts from the start of the last successful attempt and not from its response: the other replicas count
// from when the Lease was written.
func (c *candidate) renew(ctx context.Context) {
	for {
		deadline := c.renewedAt.Add(renewDeadline)
		kube.Sleep(ctx, min(retryPause(), time.Until(deadline)))
		bounded, cancel := context.WithDeadline(ctx, deadline)
		err := c.tryAcquireOrRenew(bounded)
		cancel()
		if ctx.Err() != nil || errors.Is(err, errHeld) || err != nil && !time.Now().Before(deadline) {
			return
		}
	}
}

// release removes this replica from the Lease, so that another replica takes over without waiting for the Lease to
// expire.
func (c *candidate) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, releaseDeadline)
	defer cancel()
	current, err := c.get(ctx)
	if err == nil && lease.Holder(current) == c.Identity {
		lease.Release(current, time.Now())
		err = c.put(ctx, current)
	}
	if err != nil {
		c.Logger.WarnContext(ctx, "cannot release the Lease; another replica takes over when it expires", "identity",
			c.Identity, "error", err)
	}
}

// retryPause is the time between two attempts: httpv1alpha1.LeaseRenewInterval and up to a fifth more, so that replicas
// don't try at the same time.
func retryPause() time.Duration { return wait.Jitter(httpv1alpha1.LeaseRenewInterval, 0.2) }
