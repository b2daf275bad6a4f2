package httpso

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

const (
	// pageSize is how many objects a list asks for at a time.
	pageSize = 500
	// listTimeout bounds the reading of one page.
	listTimeout = 30 * time.Second
)

// Watch keeps the Client's cache until ctx ends: it lists every HTTPScaledObject and follows their changes. While it cannot (the API server is away, list or
// watch is forbidden) reads go to the API server one by one; that is logged once, not at each attempt. To be called once.
func (c *Client) Watch(ctx context.Context, log *slog.Logger) {
	fresh := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 9, Cap: 30 * time.Second}
	backoff, told := fresh, false
	for ctx.Err() == nil {
		worked, err := c.follow(ctx)
		c.cache.lost()
		if worked {
			backoff, told = fresh, false
		}
		if ctx.Err() == nil && !told && !isExpired(err) {
			told = true
			log.WarnContext(ctx, "HTTPScaledObjects cannot be watched: each call reads its own", "error", err.Error(), "remedy", watchRemedy(err))
		}
		sleep(ctx, backoff.Step())
	}
}

// watchRemedy tells what a user can do about a failed list or watch.
func watchRemedy(err error) string {
	switch {
	case apierrors.IsForbidden(err):
		return "allow the controller's ServiceAccount to list and watch httpscaledobjects in all namespaces: apply the ClusterRole argo-rollouts-kedify-http"
	case apierrors.IsNotFound(err):
		return "install the CustomResourceDefinition httpscaledobjects.http.keda.sh"
	default:
		return "none needed if it passes"
	}
}

// isExpired says that the API server no longer knows the events since the last list, so that a new list is due.
func isExpired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// follow fills the cache by a list and keeps it by watches, each from where the one before ended, until one fails. worked says whether the cache
// could be believed at any time. A panic is an error here: it must not end the process, which can do without a cache.
func (c *Client) follow(ctx context.Context) (worked bool, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		}
	}()
	client, err := c.connection()
	if err != nil {
		return false, err
	}
	version, err := c.list(ctx, client)
	if err != nil {
		return false, err
	}
	for {
		stream, err := openWatch(ctx, client, version)
		if err != nil {
			return worked, fmt.Errorf("watch: %w", err)
		}
		worked = true
		if version, err = c.read(ctx, stream, version); err != nil {
			return worked, fmt.Errorf("watch: %w", err)
		}
	}
}

// list reads every object, page by page, and returns the resource version from which to watch.
func (c *Client) list(ctx context.Context, client rest.Interface) (version string, err error) {
	var objects []*object
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page := new(httpv1alpha1.HTTPScaledObjectList)
		err := client.Get().MaxRetries(0).Timeout(listTimeout).Resource(httpv1alpha1.Resource).VersionedParams(&options, metav1.ParameterCodec).Do(ctx).Into(page)
		if err != nil {
			return "", fmt.Errorf("list: %w", err)
		}
		for i := range page.Items {
			objects = append(objects, objectOf(&page.Items[i]))
		}
		if options.Continue = page.Continue; options.Continue == "" {
			c.cache.replace(objects, page.ResourceVersion)
			return page.ResourceVersion, nil
		}
	}
}

// openWatch asks for changes after version. Bookmarks are asked for: they show that the watch lives.
func openWatch(ctx context.Context, client rest.Interface, version string) (watch.Interface, error) {
	seconds := int64(300 + rand.IntN(300)) //nolint:gosec // spreads the ends of watches, as client-go's reflector does; no secret
	options := metav1.ListOptions{Watch: true, ResourceVersion: version, AllowWatchBookmarks: true, TimeoutSeconds: &seconds}
	return client.Get().MaxRetries(0).Resource(httpv1alpha1.Resource).VersionedParams(&options, metav1.ParameterCodec).Watch(ctx)
}

// read puts the events of stream into the cache until the API server ends the watch, as it does every few minutes, and returns the version to go on from.
func (c *Client) read(ctx context.Context, stream watch.Interface, version string) (string, error) {
	defer stream.Stop()
	begin, first := time.Now(), version
	c.cache.alive()
	for event := range stream.ResultChan() {
		next, err := c.take(event)
		if err != nil {
			return version, err
		}
		version = next
		c.cache.alive()
	}
	c.cache.lost()
	if version == first && time.Since(begin) < time.Second {
		return version, errors.New("it ended at once")
	}
	return version, ctx.Err()
}

// take puts one event into the cache and returns its resource version.
func (c *Client) take(event watch.Event) (version string, err error) {
	if event.Type == watch.Error {
		return "", apierrors.FromObject(event.Object)
	}
	changed, ok := event.Object.(*httpv1alpha1.HTTPScaledObject)
	if !ok {
		return "", fmt.Errorf("an event with a %T", event.Object)
	}
	state := objectOf(changed)
	switch event.Type {
	case watch.Added, watch.Modified:
		c.cache.put(state)
	case watch.Deleted:
		c.cache.remove(state.name, state.resourceVersion)
	default: // a bookmark, which tells the version only
	}
	return state.resourceVersion, nil
}

// sleep waits for pause or until ctx ends, and says whether it was the former.
func sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
