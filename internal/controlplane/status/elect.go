package status

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
)

const (
	// renewDeadline is how long the elected replica tries to renew the Lease before it stops to write: less than the time after which another one takes it.
	renewDeadline = 10 * time.Second
	// releaseDeadline bounds the request with which a replica that stops gives the Lease back.
	releaseDeadline = 2 * time.Second
)

var (
	// errIdentity says that an Election cannot tell its replica from others.
	errIdentity = errors.New("the replica has no name, set --pod-name")
	// errHeld says that another replica holds the Lease.
	errHeld = errors.New("another replica holds the Lease")
)

// Election chooses one of several replicas by the Lease httpv1alpha1.DefaultInterceptorLease. It is renewed every httpv1alpha1.LeaseRenewInterval, which makes
// it the sign of life of whoever writes. A replica that was killed is replaced after httpv1alpha1.LeaseFreshness. One that stops in order gives the Lease up,
// which the others watch for.
//
// A Lease counts as fresh by how long ago this replica saw it change, never by the times in it, because clocks of machines differ. The rules and the fields are
// those of Kubernetes' own leader election, so other programs can read the Lease. That library is not used, because it links the types of every API group.
type Election struct {
	// Client is a REST client of coordination.k8s.io/v1. It needs the permissions to get, watch, create and update the Lease.
	Client rest.Interface
	// Namespace is the namespace of the Lease.
	Namespace string
	// Identity names this replica among the others, such as by its pod's name.
	Identity string
	// Logger is told who is elected.
	Logger *slog.Logger
}

// Run takes part in elections until ctx ends. While this replica is elected, lead runs; its context ends when the Lease is lost, and Run waits for it
// before it takes part again. An error is a mistake in the configuration: an API server that does not answer is waited for.
func (e Election) Run(ctx context.Context, lead func(ctx context.Context)) error {
	if e.Identity == "" {
		return fmt.Errorf("election by Lease %s/%s: %w", e.Namespace, httpv1alpha1.DefaultInterceptorLease, errIdentity)
	}
	c := &candidate{Election: e}
	for ctx.Err() == nil {
		switch err := c.try(ctx); {
		case err == nil:
			c.reign(ctx, lead)
		case errors.Is(err, errHeld):
			c.standBy(ctx)
		default:
			kube.Sleep(ctx, retryPause())
		}
	}
	return nil
}

// candidate is an Election with what its replica has seen of the Lease.
type candidate struct {
	Election

	version string    // the resource version of the Lease that was last seen
	since   time.Time // when that was first seen
	told    string    // the holder that was last logged
	warned  bool      // that the Lease may not be watched
	renewed time.Time // when the last request was made that took or renewed the Lease
}

// standBy waits until the next attempt to take the Lease is due, or its holder gives it up.
func (c *candidate) standBy(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, retryPause())
	defer cancel()
	err := c.awaitRelease(ctx)
	if err == nil {
		return
	}
	if apierrors.IsForbidden(err) && !c.warned {
		c.warned = true
		c.Logger.WarnContext(ctx, "a Lease that is given up is found some seconds later",
			"remedy", "allow the ServiceAccount to watch it: apply config/interceptor/rbac.yaml", "error", err)
	}
	<-ctx.Done()
}

// awaitRelease returns nil as soon as the Lease has no holder, or is gone, in a version after the one that was last seen. An error says that it cannot tell,
// or that ctx has ended. It watches with a field selector, so that a role can name the one Lease.
func (c *candidate) awaitRelease(ctx context.Context) error {
	watching, err := c.Client.Get().Namespace(c.Namespace).Resource("leases").Param("watch", "true").
		Param("fieldSelector", "metadata.name="+httpv1alpha1.DefaultInterceptorLease).Param("resourceVersion", c.version).Watch(ctx)
	if err != nil {
		return err
	}
	_, err = watchtools.UntilWithoutRetry(ctx, watching, func(event watch.Event) (isReleased bool, err error) {
		if event.Type == watch.Error {
			return false, apierrors.FromObject(event.Object)
		}
		lease, isLease := event.Object.(*coordinationv1.Lease)
		return isLease && (event.Type == watch.Deleted || holderOf(lease) == ""), nil
	})
	return err
}

// get reads the Lease. Where there is none, it returns one that nobody has stored yet.
func (c *candidate) get(ctx context.Context) (*coordinationv1.Lease, error) {
	lease := new(coordinationv1.Lease)
	err := c.Client.Get().Namespace(c.Namespace).Resource("leases").Name(httpv1alpha1.DefaultInterceptorLease).Do(ctx).Into(lease)
	if apierrors.IsNotFound(err) {
		name := metav1.ObjectMeta{Namespace: c.Namespace, Name: httpv1alpha1.DefaultInterceptorLease}
		return &coordinationv1.Lease{ObjectMeta: name}, nil
	}
	return lease, err
}

// put stores the Lease, unless it was changed since it was read.
func (c *candidate) put(ctx context.Context, lease *coordinationv1.Lease) error {
	request := c.Client.Post()
	if lease.ResourceVersion != "" {
		request = c.Client.Put().Name(lease.Name)
	}
	return request.Namespace(c.Namespace).Resource("leases").Body(lease).Do(ctx).Error()
}

// try takes or renews the Lease if this replica may. It looks once more where somebody else wrote meanwhile. The error is errHeld when another replica holds it.
func (c *candidate) try(ctx context.Context) error {
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

// attempt is one look at the Lease, and the write that follows from it.
func (c *candidate) attempt(ctx context.Context) error {
	began := time.Now()
	lease, err := c.get(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	if !c.mayTake(ctx, lease, now) {
		return errHeld
	}
	claim(lease, c.Identity, now)
	if err := c.put(ctx, lease); err != nil {
		return err
	}
	c.renewed = began
	return nil
}

// mayTake says whether the Lease is this replica's, nobody's, or was not renewed for as long as it says.
func (c *candidate) mayTake(ctx context.Context, lease *coordinationv1.Lease, now time.Time) bool {
	if lease.ResourceVersion != c.version {
		c.version, c.since = lease.ResourceVersion, now
	}
	holder := holderOf(lease)
	if holder == c.Identity || holder == "" {
		return true
	}
	if holder != c.told {
		c.told = holder
		c.Logger.InfoContext(ctx, "another replica writes statuses", "identity", holder)
	}
	fresh := httpv1alpha1.LeaseFreshness
	if seconds := lease.Spec.LeaseDurationSeconds; seconds != nil {
		fresh = time.Duration(*seconds) * time.Second
	}
	return now.Sub(c.since) >= fresh
}

// reign runs lead while this replica holds the Lease, and gives it back when ctx has ended.
func (c *candidate) reign(ctx context.Context, lead func(ctx context.Context)) {
	c.told = c.Identity
	c.Logger.InfoContext(ctx, "elected to write statuses", "identity", c.Identity)
	term, end := context.WithCancel(ctx)
	var leading sync.WaitGroup
	leading.Go(func() { lead(term) })
	c.renew(ctx)
	end()
	leading.Wait()
	if ctx.Err() != nil {
		c.release(context.WithoutCancel(ctx))
	}
}

// renew renews the Lease until another replica holds it, or it could not be renewed for renewDeadline, or ctx ends. The time counts from the
// request and not from its answer: others count from when the Lease was written.
func (c *candidate) renew(ctx context.Context) {
	for {
		end := c.renewed.Add(renewDeadline)
		kube.Sleep(ctx, min(retryPause(), time.Until(end)))
		within, cancel := context.WithDeadline(ctx, end)
		err := c.try(within)
		cancel()
		if ctx.Err() != nil || errors.Is(err, errHeld) || err != nil && !time.Now().Before(end) {
			return
		}
	}
}

// release gives the Lease back, so that another replica need not wait.
func (c *candidate) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, releaseDeadline)
	defer cancel()
	lease, err := c.get(ctx)
	if err == nil && holderOf(lease) == c.Identity {
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = new(""), new(int32(1))
		lease.Spec.RenewTime = new(metav1.NowMicro())
		err = c.put(ctx, lease)
	}
	if err != nil {
		c.Logger.WarnContext(ctx, "cannot give the Lease back; another replica has to wait until it has run out", "identity", c.Identity, "error", err)
	}
}

// claim makes a Lease that of a replica, renewed now.
func claim(lease *coordinationv1.Lease, identity string, now time.Time) {
	at, seconds := metav1.NewMicroTime(now), int32(httpv1alpha1.LeaseFreshness/time.Second)
	if before := holderOf(lease); before != identity || lease.Spec.AcquireTime == nil {
		lease.Spec.AcquireTime = &at
		if changes := lease.Spec.LeaseTransitions; changes != nil {
			lease.Spec.LeaseTransitions = new(*changes + 1)
		} else {
			lease.Spec.LeaseTransitions = new(int32)
		}
	}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &identity, &seconds, &at
}

// holderOf returns who holds a Lease, "" for nobody.
func holderOf(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// retryPause is the time between two attempts, up to a fifth longer than the interval so that replicas don't try in step.
func retryPause() time.Duration { return wait.Jitter(httpv1alpha1.LeaseRenewInterval, 0.2) }
