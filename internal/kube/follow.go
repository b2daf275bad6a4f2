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
	// pageSize is how many objects a list asks for at a time.
	pageSize = 500
	// listTimeout bounds the reading of one page.
	listTimeout = 30 * time.Second
	// refusedPause is the pause after a list or a watch that the ServiceAccount may not make. Permissions change
	// rarely, and each attempt may list every object: the ClusterRole that users of the published plugins have allows
	// list, not watch.
	refusedPause = 10 * time.Minute
	// firstRefusedPause is the same after the first refusal in a row: an API server that starts refuses what it will
	// allow.
	firstRefusedPause = 5 * time.Second
)

// EachCallReads is the Source.Meanwhile of those who ask by Cache.Recent.
const EachCallReads = "each call reads its own"

// Source is where a cache gets its objects from.
type Source[S State] struct {
	// Client asks the API server.
	Client *Client
	// Path tells the path of the collection, of all namespaces.
	Path func(context.Context) ([]string, error)
	// Decode makes a state from an object in JSON. A bookmark, which holds nothing but a resource version, is one too.
	Decode func([]byte) (S, error)
	// Title names the objects in the log, in the plural.
	Title string
	// Meanwhile says for the log what is done while they cannot be watched.
	Meanwhile string
	// Remedies are what a user can do so that the objects can be listed and watched.
	Remedies Remedies
}

// Follow keeps the cache until ctx ends: it lists every object and follows their changes. While it cannot (the API
// server is away, list or watch is forbidden) the cache is not believed; that is logged once, not at each attempt.
// Where list or watch is forbidden it is emptied, and tried again after 10 minutes. To be called once.
func (c *Cache[S]) Follow(ctx context.Context, source Source[S], log *slog.Logger) {
	fresh := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 9, Cap: 30 * time.Second}
	backoff, told, refusals := fresh, false, 0
	for ctx.Err() == nil {
		worked, err := c.follow(ctx, source)
		c.lost()
		if worked {
			backoff, told, refusals = fresh, false, 0
		}
		if ctx.Err() == nil && !told && !isExpired(err) {
			told = true
			log.WarnContext(ctx, "objects cannot be watched", "objects", source.Title, "meanwhile", source.Meanwhile,
				"error", err.Error(),
				"remedy", remedy(err, source.Remedies))
		}
		if !apierrors.IsForbidden(err) {
			Sleep(ctx, backoff.Step())
			continue
		}
		c.forget()
		pause := firstRefusedPause
		if refusals++; refusals > 1 {
			pause = refusedPause
		}
		Sleep(ctx, pause)
	}
}

// remedy tells what a user can do about a failed list or watch.
func remedy(err error, remedies Remedies) string {
	switch {
	case apierrors.IsForbidden(err):
		return remedies.Forbidden
	case apierrors.IsNotFound(err):
		return remedies.NotFound
	default:
		return "none needed if it passes"
	}
}

// isExpired says that the API server no longer knows the events since the last list, so that a new list is due.
func isExpired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// follow fills the cache by a list and keeps it by watches, each from where the one before ended, until one fails.
// worked says whether the cache could be believed at any time. A panic is an error here: it must not end the process,
// which can do without a cache.
func (c *Cache[S]) follow(ctx context.Context, source Source[S]) (worked bool, err error) {
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
			return worked, fmt.Errorf("watch: %w", err)
		}
		worked = true
		if version, err = c.read(ctx, stream, source.Decode, version); err != nil {
			return worked, fmt.Errorf("watch: %w", err)
		}
	}
}

// page is one part of a list.
type page struct {
	Metadata metav1.ListMeta   `json:"metadata"`
	Items    []json.RawMessage `json:"items"`
}

// list reads every object, page by page, and returns the resource version from which to watch.
func (c *Cache[S]) list(ctx context.Context, source Source[S], path []string) (version string, err error) {
	var states []S
	query := map[string]string{"limit": strconv.Itoa(pageSize)}
	for {
		var part page
		if err := readPage(ctx, source.Client, Request{Path: path, Query: query}, &part); err != nil {
			return "", err
		}
		for _, item := range part.Items {
			state, err := source.Decode(item)
			if err != nil {
				return "", err
			}
			states = append(states, state)
		}
		if query["continue"] = part.Metadata.Continue; part.Metadata.Continue == "" {
			c.replace(states, part.Metadata.ResourceVersion)
			return part.Metadata.ResourceVersion, nil
		}
	}
}

func readPage(ctx context.Context, client *Client, asked Request, into *page) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	body, err := client.Do(ctx, asked)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

// openWatch asks for changes after version. Bookmarks are asked for: they show that the watch lives.
func openWatch(ctx context.Context, client *Client, path []string, version string) (io.ReadCloser, error) {
	seconds := 300 + rand.IntN(300) //nolint:gosec // spreads the ends of watches, as client-go's reflector does; no secret
	return client.Stream(ctx, Request{Path: path, Query: map[string]string{
		"watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true",
		"timeoutSeconds": strconv.Itoa(seconds),
	}})
}

// event is what a watch tells (metav1.WatchEvent).
type event struct {
	Type   watch.EventType `json:"type"`
	Object json.RawMessage `json:"object"`
}

// read puts the events of stream into the cache until the API server ends the watch, as it does every few minutes, and
// returns the version to go on from.
func (c *Cache[S]) read(
	ctx context.Context, stream io.ReadCloser, decode func([]byte) (S, error), version string,
) (string, error) {
	defer stream.Close()
	begin, first := time.Now(), version
	c.alive()
	events := json.NewDecoder(stream)
	for {
		var told event
		if err := events.Decode(&told); err != nil {
			break // the end, in good order or not: the next watch goes on from version
		}
		next, err := c.take(told, decode)
		if err != nil {
			return version, err
		}
		version = next
		c.alive()
	}
	c.lost()
	if version == first && time.Since(begin) < time.Second {
		return version, errors.New("it ended at once")
	}
	return version, ctx.Err()
}

// take puts one event into the cache and returns its resource version.
func (c *Cache[S]) take(told event, decode func([]byte) (S, error)) (version string, err error) {
	if told.Type == watch.Error {
		var status metav1.Status
		if err := json.Unmarshal(told.Object, &status); err != nil {
			return "", fmt.Errorf("an error that cannot be read: %w", err)
		}
		return "", &apierrors.StatusError{ErrStatus: status}
	}
	state, err := decode(told.Object)
	if err != nil {
		return "", err
	}
	switch told.Type {
	case watch.Added, watch.Modified:
		c.Put(state)
	case watch.Deleted:
		c.remove(state.Name(), state.Version())
	default: // a bookmark, which tells the version only
	}
	return state.Version(), nil
}
