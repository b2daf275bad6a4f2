package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// pageSize is the number of objects in one page of a list.
	pageSize = 500
	// listTimeout bounds the request of one page.
	listTimeout = 30 * time.Second
	// forbiddenPause is the pause after a list or a watch that is forbidden. Permissions change rarely, and each
	// attempt may list every object: the ClusterRole of the published plugins allows list and not watch.
	forbiddenPause = 10 * time.Minute
	// stablePeriod is how long the cache has to be current until the pauses start again. Otherwise a load balancer that
	// ends each watch would cause a list of all objects after each of the shortest pauses.
	stablePeriod = 30 * time.Second
	// firstForbiddenPause is the pause after the first such response in a row: an API server that is starting rejects
	// allowed requests.
	firstForbiddenPause = 5 * time.Second
)

// ReadPerCall is the Source.Fallback of callers of Cache.Recent.
const ReadPerCall = "each call reads the object from the API server"

// Source is the collection that a cache follows.
type Source[S State] struct {
	// Client sends the requests.
	Client *Client
	// Path returns the path of the collection, in all namespaces.
	Path func(context.Context) ([]string, error)
	// Decode returns the state of an object in JSON, which it must not retain. It has to accept a bookmark, which has only
	// a resource version.
	Decode func([]byte) (S, error)
	// Title is the name of the objects in the log, in the plural.
	Title string
	// Fallback describes for the log what callers do while the objects cannot be watched.
	Fallback string
	// Fixes are the fixes for a failed list or watch.
	Fixes Fixes
	// IsOptional reports whether an installation is complete without the CRD of the objects. Follow then logs a missing
	// CRD at level info instead of warn.
	IsOptional bool
}

// Follow keeps the cache current until ctx ends: it lists all objects and watches their changes. If that fails, because
// the API server is unavailable or list or watch is forbidden, the cache isn't current. Follow logs that once, not at
// each attempt, and once more if a later failure has a higher level. After a forbidden request it clears the cache
// and retries after 10 minutes. Follow must be called once.
func (c *Cache[S]) Follow(ctx context.Context, source Source[S], log *slog.Logger) {
	fresh := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 9, Cap: 30 * time.Second}
	const none = slog.LevelDebug // no failure is logged at this level
	backoff, logged, denials := fresh, none, 0
	for ctx.Err() == nil {
		began := time.Now()
		wasCurrent, err := c.follow(ctx, source)
		c.markFailed(err)
		if wasCurrent {
			logged, denials = none, 0
		}
		if wasCurrent && time.Since(began) >= stablePeriod {
			backoff = fresh
		}
		if level := source.levelOf(err); ctx.Err() == nil && level > logged && !isExpired(err) {
			logged = level
			log.Log(ctx, level, "objects cannot be watched", "objects", source.Title, "meanwhile", source.Fallback,
				"error", err.Error(), "fix", fixFor(err, source.Fixes))
		}
		if !apierrors.IsForbidden(err) {
			Sleep(ctx, backoff.Step())
			continue
		}
		c.clear()
		pause := firstForbiddenPause
		if denials++; denials > 1 {
			pause = forbiddenPause
		}
		Sleep(ctx, pause)
	}
}

// levelOf returns the level at which a failed list or watch is logged: info or warn.
func (s Source[S]) levelOf(err error) slog.Level {
	if s.IsOptional && apierrors.IsNotFound(err) {
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

// fixFor returns the fix for a failed list or watch.
func fixFor(err error, fixes Fixes) string {
	switch {
	case apierrors.IsForbidden(err):
		return fixes.Forbidden
	case apierrors.IsNotFound(err):
		return fixes.NotFound
	default:
		return "none: it is retried automatically"
	}
}

// isExpired reports whether the API server no longer has the events since the last list, so that a new list is needed.
func isExpired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// follow lists all objects and then watches them, each watch from the end of the one before, until one fails.
// wasCurrent reports whether the cache was current at any time. A panic becomes an error: the process works without a
// cache.
func (c *Cache[S]) follow(ctx context.Context, source Source[S]) (wasCurrent bool, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		}
	}()
	path, err := source.Path(ctx)
	if err != nil {
		return false, err
	}
	version, err := c.list(ctx, source, path)
	if err != nil {
		return false, fmt.Errorf("list: %w", err)
	}
	for {
		stream, err := openWatch(ctx, source.Client, path, version)
		if err != nil {
			return wasCurrent, fmt.Errorf("watch: %w", err)
		}
		wasCurrent = true
		if version, err = c.read(ctx, stream, source.Decode, version); err != nil {
			return wasCurrent, fmt.Errorf("watch: %w", err)
		}
	}
}

// list reads all objects, page by page, and returns the resource version to watch from.
func (c *Cache[S]) list(ctx context.Context, source Source[S], path []string) (version string, err error) {
	var states []S
	query := map[string]string{"limit": strconv.Itoa(pageSize)}
	for {
		page, err := readPage(ctx, source.Client, Request{Path: path, Query: query}, func(item []byte) error {
			state, err := source.Decode(item)
			states = append(states, state)
			return err
		})
		if err != nil {
			return "", err
		}
		if query["continue"] = page.Continue; page.Continue == "" {
			c.replace(states, page.ResourceVersion)
			return page.ResourceVersion, nil
		}
	}
}

// readPage reads one page of a list, object by object.
func readPage(
	ctx context.Context, client *Client, r Request, decode func([]byte) error,
) (page metav1.ListMeta, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	body, err := client.Stream(ctx, r)
	if err != nil {
		return page, err
	}
	defer body.Close()
	return DecodePage(body, decode)
}

// openWatch opens a watch for changes after version. It requests bookmarks, which show that the watch is alive.
func openWatch(ctx context.Context, client *Client, path []string, version string) (io.ReadCloser, error) {
	// The random part spreads the ends of watches, as client-go's reflector does.
	seconds := 300 + rand.IntN(300) //nolint:gosec // no secret
	return client.Stream(ctx, Request{Path: path, Query: map[string]string{
		"watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true",
		"timeoutSeconds": strconv.Itoa(seconds),
	}})
}

// event is an event of a watch (metav1.WatchEvent).
type event struct {
	Type   watch.EventType `json:"type"`
	Object json.RawMessage `json:"object"`
}

// read applies the events of a stream to the cache until the API server ends the watch, which it does every few
// minutes. It returns the version to continue from.
func (c *Cache[S]) read(
	ctx context.Context, stream io.ReadCloser, decode func([]byte) (S, error), version string,
) (string, error) {
	defer stream.Close()
	begin, first := time.Now(), version
	c.markAlive()
	events := json.NewDecoder(stream)
	for {
		var e event
		if err := events.Decode(&e); err != nil {
			break // The watch has ended, with or without an error; the next one continues from version.
		}
		next, err := c.apply(e, decode)
		if err != nil {
			return version, err
		}
		version = next
		c.markAlive()
	}
	c.markClosed()
	if version == first && time.Since(begin) < time.Second {
		return version, errors.New("the watch ended immediately")
	}
	return version, ctx.Err()
}

// apply applies one event to the cache and returns its resource version.
func (c *Cache[S]) apply(e event, decode func([]byte) (S, error)) (version string, err error) {
	if e.Type == watch.Error {
		var status metav1.Status
		if err := json.Unmarshal(e.Object, &status); err != nil {
			return "", fmt.Errorf("decode the error: %w", err)
		}
		return "", &apierrors.StatusError{ErrStatus: status}
	}
	state, err := decode(e.Object)
	if err != nil {
		return "", err
	}
	switch e.Type {
	case watch.Added, watch.Modified:
		c.Put(state)
	case watch.Deleted:
		c.remove(state.Name(), state.Version())
	default: // a bookmark, which has only a version
	}
	return state.Version(), nil
}
