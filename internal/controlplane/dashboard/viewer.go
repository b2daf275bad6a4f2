package dashboard

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// queueLength is how many updates a viewer may be behind.
const queueLength = 4

// viewer is a stream, or a request that waits for one update.
type viewer struct {
	// object is the object that it shows, the zero Key for the overview.
	object model.Key
	// user is the name of the user, "" for local callers.
	user string
	// updates receives the updates. It is closed when the viewer is too slow, or the Hub stops.
	updates chan *update
	close   func() // closes updates, once
	// sent is the last update of the object, so that it receives each once.
	sent *update
}

// newViewer returns a viewer of an object, or of the overview for the zero Key.
func newViewer(object model.Key, user string) *viewer {
	updates := make(chan *update, queueLength)
	return &viewer{object: object, user: user, updates: updates, close: sync.OnceFunc(func() { close(updates) })}
}

// send sends an update, and reports whether the viewer is fast enough. It never waits.
func (v *viewer) send(next *update) bool {
	select {
	case v.updates <- next:
		return true
	default:
		v.close()
		return false
	}
}

// update is one update. All viewers share it, so it is not modified.
type update struct {
	// isWhole means that rows contains all objects.
	isWhole bool
	// rows are the changed objects, in no order, and gone are the deleted ones, without text.
	rows, gone []row
	// interceptors is Interceptors as JSON, nil if they are unchanged.
	interceptors []byte
	// detail is a view.Detail as JSON, and brief the same without the workload. They are nil if the object does not exist.
	detail, brief []byte
	// resource is the resource of the object of detail.
	resource string
	// isRead means that detail has the workload, or that it cannot be read.
	isRead bool

	once        sync.Once
	all         []byte       // the data of the event for viewers who see everything
	collections []collection // of rows and gone
}

// row is one object as JSON.
type row struct {
	key      model.Key
	resource string
	text     []byte
}

// collection returns the collection that the object belongs to.
func (r row) collection() collection { return collection{r.key.Namespace, r.resource} }

// prepare sets what is the same for all viewers.
func (u *update) prepare() {
	u.once.Do(func() {
		found := map[collection]struct{}{}
		for _, rows := range [][]row{u.rows, u.gone} {
			for _, one := range rows {
				found[one.collection()] = struct{}{}
			}
		}
		u.collections = slices.Collect(maps.Keys(found))
		u.all = u.encode(func(collection) bool { return true })
	})
}

// review reviews the collections of the rows.
func (u *update) review(ctx context.Context, seen *scope) error {
	u.prepare()
	return seen.review(ctx, u.collections)
}

// encodeFor returns the data of the event for a viewer, after review.
func (u *update) encodeFor(seen *scope) []byte {
	u.prepare()
	if !slices.ContainsFunc(u.collections, func(one collection) bool { return !seen.sees(one) }) {
		return u.all
	}
	return u.encode(seen.sees)
}

// encode returns the data of the event with the rows of some collections.
func (u *update) encode(isSeen func(collection) bool) []byte {
	const rowBytes = 300
	buffer := bytes.NewBuffer(make([]byte, 0, rowBytes*len(u.rows)))
	buffer.WriteString(`{"whole":`)
	buffer.WriteString(strconv.FormatBool(u.isWhole))
	buffer.WriteString(`,"objects":[`)
	separator := ""
	for _, one := range u.rows {
		if isSeen(one.collection()) {
			buffer.WriteString(separator)
			buffer.Write(one.text)
			separator = ","
		}
	}
	buffer.WriteString(`],"gone":[`)
	separator = ""
	for _, one := range u.gone {
		if isSeen(one.collection()) {
			buffer.WriteString(separator + `"` + one.key.String() + `"`) // Names of objects need no escapes.
			separator = ","
		}
	}
	buffer.WriteString(`]}`)
	return buffer.Bytes()
}
